package main

import (
	"runtime"
	"testing"
)

func TestGarbageFor(t *testing.T) {
	for _, c := range []struct {
		kept      uint64
		now, want int
	}{
		{4 << 20, usualGarbage, usualGarbage},
		{63 << 20, usualGarbage, usualGarbage},
		{64 << 20, usualGarbage, largeGarbage},
		{63 << 20, largeGarbage, largeGarbage}, // it does not go to and fro at the border
		{48 << 20, largeGarbage, usualGarbage},
		{10 << 30, largeGarbage, largeGarbage},
	} {
		if got := garbageFor(c.kept, c.now); got != c.want {
			t.Errorf("%d MiB kept at %d %%: %d %%, want %d %%", c.kept>>20, c.now, got, c.want)
		}
	}
}

// What is kept is seen, and what is not kept is not.
func TestKeptBytes(t *testing.T) {
	runtime.GC()
	runtime.GC() // the first leaves what finalizers and pools held
	before := keptBytes()
	kept := make([]byte, 32<<20)
	runtime.GC()
	with := keptBytes()
	runtime.KeepAlive(kept)
	runtime.GC()
	if after := keptBytes(); with < before+30<<20 || after > with-30<<20 {
		t.Errorf("%d bytes, %d with 32 MiB more, %d without them again", before, with, after)
	}
}
