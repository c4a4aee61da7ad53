package transcript

import (
	"strings"
	"testing"
)

// echo says again what it is told, but for "hush".
type echo struct{ lines []string }

func (e *echo) Command(line string) {
	if line != "hush" {
		e.lines = append(e.lines, strings.ToUpper(line))
	}
}

func (e *echo) Said() string {
	defer func() { e.lines = nil }()
	return strings.Join(e.lines, "\n")
}

// What was under the dashes before does not matter; what is written once stays as it is.
func TestPlay(t *testing.T) {
	const script = "a remark\nof two lines\n\none\ntwo\n----\nwrong\n\nhush\n----\n\nhush\n----\nwrong, too"
	const want = "a remark\nof two lines\n\none\ntwo\n----\nONE\nTWO\n\nhush\n----\n\nhush\n----\n"
	got := Play(&echo{}, script)
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if again := Play(&echo{}, got); again != got {
		t.Errorf("played again it is %q", again)
	}
}
