package main

import (
	"strings"
	"testing"
)

// lines feeds what members print: "who line", one a line.
func lines(l *ledger, text string) {
	for line := range strings.Lines(text) {
		who, said, _ := strings.Cut(line, " ")
		l.line(who, said)
	}
}

func TestSoundLifeHasNoFaults(t *testing.T) {
	l := newLedger(2)
	l.wrote(0, 0)
	l.wrote(0, 1)
	l.wrote(1, 0)
	if n := l.unread(); n != 3 {
		t.Errorf("%d unread, want 3", n)
	}
	lines(l, "A read 0 0 0/0\nA committed 0 1\nA read 0 1 0/1\nB read 0 1 0/1\nB read 1 0 1/0\nB committed 0 2\n")
	if f := l.found(); len(f.again)+len(f.future)+len(f.strange) > 0 {
		t.Errorf("faults %+v", f)
	}
	if n := l.unread(); n != 0 {
		t.Errorf("%d unread", n)
	}
	if owners := l.owners(); len(owners) != 1 || !owners["B"] {
		t.Errorf("owners %v", owners)
	}
	if l.mark(); !l.owners()[""] {
		t.Error("owners are known after a mark")
	}
}

func TestPlantedFaultsAreFound(t *testing.T) {
	tests := map[string]struct {
		said  string
		found func(faults) []string
	}{
		"a committed record is read by another":      {"A read 0 0 0/0\nA committed 0 1\nB read 0 0 0/0\n", func(f faults) []string { return f.again }},
		"a committed record is read by the same":     {"A read 0 0 0/0\nA committed 0 1\nA read 0 0 0/0\n", func(f faults) []string { return f.again }},
		"a commit of what nobody read":               {"A read 0 0 0/0\nA committed 0 2\n", func(f faults) []string { return f.future }},
		"a record with another's value":              {"A read 0 0 0/1\n", func(f faults) []string { return f.strange }},
		"a partition that is not there":              {"A read 2 0 2/0\n", func(f faults) []string { return f.strange }},
		"a line that is none":                        {"A something\n", func(f faults) []string { return f.strange }},
		"a commit for a partition that is not there": {"A committed -1 0\n", func(f faults) []string { return f.strange }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLedger(2)
			lines(l, tc.said)
			if len(tc.found(l.found())) != 1 {
				t.Errorf("found %+v", l.found())
			}
		})
	}
}
