package broker

import (
	"sync"
	"testing"
)

// TestFetchOfMorePartitionsThanFiles: an answer has the data of all partitions if they are few in each, and else of a share of them at a time, so that those who
// fetch at the same time all get on. Nobody is told that files are short.
func TestFetchOfMorePartitionsThanFiles(t *testing.T) {
	const files, partitions, small, large = 64, 200, 10, 20_000
	r := newRigWith(t, Options{OpenFiles: files})
	few, many := r.topic("few", partitions, nil), r.topic("many", partitions, nil)
	for p := range int32(partitions) {
		r.fill(few.partition(p), 1, small)
		r.fill(many.partition(p), 1, large)
	}
	answer := func(c *wire, x *topic, seen map[int32]bool) (found int) {
		var asked []want
		for p := range int32(partitions) {
			if !seen[p] {
				asked = append(asked, at(x, p, 0))
			}
		}
		q := fetchOf(asked...)
		q.MaxBytes = 50 << 20
		for _, p := range fetched(c.do(18, q)) {
			if p.ErrorCode != 0 {
				t.Errorf("partition %d: error %d", p.Partition, p.ErrorCode)
			}
			if len(p.RecordBatches) > 0 {
				seen[p.Partition] = true
				found++
			}
		}
		return found
	}
	if n := answer(r.dial(), few, map[int32]bool{}); n != partitions {
		t.Errorf("small ranges of %d partitions in an answer, want all %d", n, partitions)
	}
	if n := answer(r.dial(), many, map[int32]bool{}); n != files/heldShare {
		t.Errorf("large ranges of %d partitions in an answer, want %d", n, files/heldShare)
	}
	var readers sync.WaitGroup
	for range 4 {
		c := r.dial()
		readers.Go(func() {
			seen := map[int32]bool{}
			for range 10 * partitions {
				if answer(c, many, seen); len(seen) == partitions {
					return
				}
			}
			t.Errorf("one who reads beside others got %d of %d partitions", len(seen), partitions)
		})
	}
	readers.Wait()
	if open, limit, _ := r.b.dir.OpenFiles(); open > limit {
		t.Errorf("%d files open, and %d may be", open, limit)
	}
}
