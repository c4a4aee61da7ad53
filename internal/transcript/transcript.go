// Package transcript plays dialogues with a machine that are kept as text, for tests.
//
// A transcript is paragraphs, parted by empty lines. A paragraph with a line of four dashes is commands, the dashes, and what came of the
// commands; any other is a remark. `go test -rewrite` writes what comes of them now, and the diff is there to be read.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the transcripts in testdata from what the machine does now")

const dashes = "\n----"

// Stage is what a transcript is played on.
type Stage interface {
	// Command runs one line.
	Command(line string)
	// Said gives the lines that were said since the last time, without a newline at the end.
	Said() string
}

// Run plays testdata/*.txt, each as a test of its own. play makes a Stage and calls Play.
func Run(t *testing.T, play func(t *testing.T, script string) string) {
	files, err := filepath.Glob("testdata/[a-z]*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *rewrite {
				err = os.WriteFile(file, []byte(got), 0o666)
			} else if got != string(want) {
				t.Errorf("%s: run with -rewrite and read the diff; now it is\n%s", file, got)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Play runs the commands of each paragraph and puts what came of them under its dashes.
func Play(s Stage, script string) string {
	var paragraphs []string
	for p := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		if commands, _, dialogue := strings.Cut(p, dashes); dialogue {
			p = dialogueOf(s, commands)
		}
		paragraphs = append(paragraphs, p)
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

func dialogueOf(s Stage, commands string) string {
	for line := range strings.SplitSeq(commands, "\n") {
		s.Command(line)
	}
	if said := s.Said(); said != "" {
		return commands + dashes + "\n" + said
	}
	return commands + dashes
}
