package vfs

import (
	"strings"
	"testing"
)

// TestHeld: memory is counted from the write on, the durable copy shares its pages, what was not synced costs more, and what is removed costs nothing.
func TestHeld(t *testing.T) {
	m := NewMem()
	empty := m.Held()
	f := create(t, m, "f")
	check(t, m.SyncDir("/"))
	const size = 64 * pageSize
	write(t, f, 0, strings.Repeat("x", size))
	unsynced := m.Held()
	check(t, f.Sync())
	synced := m.Held()
	if synced < size || synced > size+size/8 {
		t.Errorf("%d bytes for a file of %d", synced, size)
	}
	if unsynced < synced+size/2 {
		t.Errorf("%d bytes before the sync, %d after", unsynced, synced)
	}
	check(t, m.Remove("f"))
	if got := m.Held(); got < synced {
		t.Errorf("%d bytes before the removal is durable, %d before it", got, synced)
	}
	check(t, m.SyncDir("/"))
	if got := m.Held(); got != empty {
		t.Errorf("%d bytes after the removal, %d at first", got, empty)
	}
}
