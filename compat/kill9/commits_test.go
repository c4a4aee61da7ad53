package main

import "testing"

func TestSoundCommitsHaveNoFaults(t *testing.T) {
	b := newCommitBook()
	life := b.try("g", offsets{0: 5, 1: 3})
	b.read("g", 0, 5)
	b.ack("g", "g", 7, life, offsets{0: 5})
	b.check("g", b.promised("g"), offsets{0: 5, 1: 3}) // the second may have been taken
	b.killed()
	b.ack("g", "g", 6, life, offsets{1: 3}) // late, of the life before
	life = b.try("g", offsets{0: 6})
	b.ack("g", "g", 7, life, offsets{0: 6})
	b.ack("g", "m", 1, life, nil) // another's epoch
	b.check("g", b.promised("g"), offsets{0: 6, 1: 3})
	if f := b.found(); f != (commitFaults{}) {
		t.Errorf("faults %+v", f)
	}
	if n := b.count("g"); n != 2 {
		t.Errorf("commits for %d partitions, want 2", n)
	}
}

func TestPlantedCommitFaultsAreFound(t *testing.T) {
	tests := map[string]struct {
		harm  func(b *commitBook)
		found func(f commitFaults) int
	}{
		"a commit is gone":              {func(b *commitBook) { b.check("g", b.promised("g"), offsets{}) }, func(f commitFaults) int { return f.lost }},
		"an older commit is back":       {func(b *commitBook) { b.check("g", b.promised("g"), offsets{0: 4}) }, func(f commitFaults) int { return f.lost }},
		"a commit that nobody made":     {func(b *commitBook) { b.check("g", b.promised("g"), offsets{0: 6}) }, func(f commitFaults) int { return f.future }},
		"a commit in an old generation": {func(b *commitBook) { b.ack("g", "g", 6, b.try("g", offsets{0: 6}), offsets{0: 6}) }, func(f commitFaults) int { return f.back }},
		"a committed record":            {func(b *commitBook) { b.read("g", 0, 4) }, func(f commitFaults) int { return f.again }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newCommitBook()
			life := b.try("g", offsets{0: 4})
			b.ack("g", "g", 6, life, offsets{0: 4})
			life = b.try("g", offsets{0: 5})
			b.ack("g", "g", 7, life, offsets{0: 5})
			b.killed()
			tc.harm(b)
			if tc.found(b.found()) != 1 {
				t.Errorf("not found: %+v", b.found())
			}
		})
	}
}
