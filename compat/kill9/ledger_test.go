package main

import (
	"slices"
	"testing"
)

// world is a ledger with two producers whose records lie in two partitions, all acknowledged and seen, and its logs.
func world() (*ledger, [][]stored) {
	l := newLedger()
	logs := make([][]stored, 2)
	for n := range 10 {
		for producer := range 2 {
			i := id{producer, n}
			partition := int32(n % 2)
			value := digestOf(i.key())
			at := place{partition, int64(len(logs[partition]))}
			l.try(i, attempt{partition, value})
			l.finish(i, at, nil)
			l.see(at, value)
			logs[partition] = append(logs[partition], stored{at, i.key(), value})
		}
	}
	return l, logs
}

func TestSoundLogHasNoFaults(t *testing.T) {
	l, logs := world()
	if f := l.check(logs, l.promises()); f != (faults{}) {
		t.Errorf("faults %+v", f)
	}
	l.try(id{0, 99}, attempt{0, 1})
	if n := l.unacknowledged(); n != 1 {
		t.Errorf("%d unacknowledged", n)
	}
}

// TestPlantedFaultsAreFound damages the log of partition 0 in one way each.
func TestPlantedFaultsAreFound(t *testing.T) {
	tests := map[string]struct {
		damage func(log []stored) []stored
		found  func(f faults) int
	}{
		"the last is lost": {
			func(log []stored) []stored { return log[:len(log)-1] },
			func(f faults) int { return min(f.lost, f.vanished) },
		},
		"one in the middle is lost": {
			func(log []stored) []stored { return slices.Delete(log, 3, 4) },
			func(f faults) int { return min(f.lost, f.holes, f.vanished) },
		},
		"a value changes": {
			func(log []stored) []stored { log[2].value++; return log },
			func(f faults) int { return min(f.altered, f.unattempted, f.vanished) },
		},
		"two change places": {
			func(log []stored) []stored {
				log[0].key, log[0].value, log[2].key, log[2].value = log[2].key, log[2].value, log[0].key, log[0].value
				return log
			},
			func(f faults) int { return min(f.altered, f.reordered) },
		},
		"one is there twice": {
			func(log []stored) []stored {
				again := log[4]
				again.offset = int64(len(log))
				return append(log, again)
			},
			func(f faults) int { return f.duplicated },
		},
		"one belongs to another partition": {
			func(log []stored) []stored {
				key := id{0, 1}.key()
				return append(log, stored{place{0, int64(len(log))}, key, digestOf(key)})
			},
			func(f faults) int { return f.unattempted },
		},
		"one has a strange key": {
			func(log []stored) []stored { return append(log, stored{place{0, int64(len(log))}, []byte("0/1x"), 0}) },
			func(f faults) int { return f.unattempted },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, logs := world()
			logs[0] = tc.damage(logs[0])
			if f := l.check(logs, l.promises()); tc.found(f) == 0 {
				t.Errorf("not found: %+v", f)
			}
		})
	}
}

// TestLaterRecordsAreNotPromised: what was acknowledged after the copy need not be in a log that was read before it.
func TestLaterRecordsAreNotPromised(t *testing.T) {
	l, logs := world()
	promised := l.promises()
	i := id{1, 77}
	l.try(i, attempt{0, 5})
	l.finish(i, place{0, 1000}, nil)
	l.see(place{0, 1000}, 5)
	if f := l.check(logs, promised); f != (faults{}) {
		t.Errorf("faults %+v", f)
	}
}
