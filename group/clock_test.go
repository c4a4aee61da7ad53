package group

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/internal/crashtest"
	"sluice/internal/transcript"
)

// byTheWall are the transcripts about what goes by the wall clock, because it lasts for days and across restarts: the retention of offsets.
var byTheWall = []string{"expiry.txt"}

// TestGroupsUnderASetClock plays the transcripts while the wall clock jumps, stands still or walks about: joins, sessions, rebalances and their ends come as
// they do when it is right.
func TestGroupsUnderASetClock(t *testing.T) {
	files, err := filepath.Glob("testdata/[a-z]*.txt")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for name, ahead := range crashtest.Clocks() {
		t.Run(name, func(t *testing.T) {
			for _, file := range files {
				if slices.Contains(byTheWall, filepath.Base(file)) {
					continue
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if got := transcript.Play(newSetClock(t, ahead), string(want)); got != string(want) {
					t.Errorf("%s is\n%s", file, got)
				}
			}
		})
	}
}

// setClock is a stage whose wall clock is set before every command.
type setClock struct {
	*stage
	began time.Time
	ahead func(passed time.Duration) time.Duration
}

func newSetClock(t *testing.T, ahead func(time.Duration) time.Duration) setClock {
	s := setClock{newStage(t), time.Now(), ahead}
	s.now = s.began
	s.load() // its clock begins now
	return s
}

// Command implements transcript.Stage.
func (s setClock) Command(text string) {
	passed := s.now.Sub(s.began)
	s.now = crashtest.SetClock(s.began.Add(passed), s.ahead(passed))
	s.stage.Command(text)
}
