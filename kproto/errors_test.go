package kproto

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestErrors(t *testing.T) {
	err := fmt.Errorf("append: %w", Errorf(CorruptMessage, "bad %d", 1))
	if code, ok := CodeOf(err); code != CorruptMessage || !ok {
		t.Errorf("CodeOf gave %d, %v", code, ok)
	}
	if !errors.Is(err, &Error{Code: CorruptMessage}) || !errors.Is(err, kerr.CorruptMessage) || errors.Is(err, &Error{Code: InvalidRecord}) {
		t.Error("errors.Is does not compare codes")
	}
	if got, want := err.Error(), "append: CORRUPT_MESSAGE: bad 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if code, ok := CodeOf(nil); code != NoError || !ok {
		t.Errorf("CodeOf(nil) gave %d, %v", code, ok)
	}
	if code, ok := CodeOf(errors.New("x")); code != UnknownServerError || ok {
		t.Errorf("CodeOf of a stranger gave %d, %v", code, ok)
	}
}

func TestCodeNames(t *testing.T) {
	for code, want := range map[int16]string{0: "NONE", 3: "UNKNOWN_TOPIC_OR_PARTITION", -1: "UNKNOWN_SERVER_ERROR", 9999: "UNKNOWN_SERVER_ERROR"} {
		if got := CodeName(code); got != want {
			t.Errorf("code %d: got %s, want %s", code, got, want)
		}
	}
}

func TestTopicID(t *testing.T) {
	id := TopicID{0xff, 1, 2, 3, 15: 0xfe}
	if got, err := ParseTopicID(id.String()); err != nil || got != id || len(id.String()) != 22 {
		t.Errorf("%s parsed to %s, %v", id, got, err)
	}
	for _, s := range []string{"", "short", "AAAAAAAAAAAAAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAB"} {
		if id, err := ParseTopicID(s); err == nil || !id.IsZero() {
			t.Errorf("%q parsed to %s", s, id)
		}
	}
}
