package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage may gather, in percent of what is kept, before it is collected. Go's default is the cheapest where data pass through a small heap. What a
// broker of many partitions and groups keeps in memory hardly changes; there as much garbage again is a waste, and collecting is rare anyway.
const (
	usualGarbage = 100
	largeGarbage = 50
	// largeHeap is from how many bytes kept on it is a large heap, and usualHeap up to how many a usual one.
	largeHeap = 64 << 20
	usualHeap = 48 << 20
	// heapEvery is how often that is looked at.
	heapEvery = 5 * time.Second
)

// tendHeap sets the garbage collector by the size of the heap until ctx ends. GOGC overrules it.
func tendHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	tick := time.NewTicker(heapEvery)
	defer tick.Stop()
	for now := usualGarbage; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if next := garbageFor(keptBytes(), now); next != now {
				now = next
				debug.SetGCPercent(now)
			}
		}
	}
}

// garbageFor is the percentage for a heap of which so many bytes are kept, where it is now so much.
func garbageFor(kept uint64, now int) int {
	switch {
	case kept >= largeHeap:
		return largeGarbage
	case kept <= usualHeap:
		return usualGarbage
	}
	return now
}

// keptBytes is what the last collection left.
func keptBytes() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
