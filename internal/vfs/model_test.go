package vfs

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// model is what the property test knows of one file: the versions that it had since its
// last sync, which is the first of them.
type model struct {
	file     File
	versions [][]byte
}

func (m *model) last() []byte { return m.versions[len(m.versions)-1] }

// TestCrashProperties writes at random and checks each image against a model that knows
// nothing of changes, sectors in memory, or pages: every sector is that of some version.
func TestCrashProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		disk := NewMem()
		files := map[string]*model{}
		for _, name := range []string{"f", "g"} {
			f := create(t, disk, name)
			files[name] = &model{file: f, versions: [][]byte{{}}}
		}
		check(t, disk.SyncDir("/"))
		for range rapid.IntRange(1, 12).Draw(rt, "operations") {
			step(rt, t, files[rapid.SampledFrom([]string{"f", "g"}).Draw(rt, "file")])
		}
		for name, m := range files {
			if got := content(t, disk, name); !bytes.Equal(got, m.last()) {
				rt.Fatalf("%s reads wrong", name)
			}
			if got := content(t, disk.Crash(KeepEverything), name); !bytes.Equal(got, m.last()) {
				rt.Fatalf("%s is wrong with everything kept", name)
			}
			if got := content(t, disk.Crash(KeepNothing), name); !bytes.Equal(got, m.versions[0]) {
				rt.Fatalf("%s is wrong with nothing kept", name)
			}
		}
		for how, image := range disk.Images(20) {
			for name, m := range files {
				if err := m.legal(content(t, image, name)); err != nil {
					rt.Fatalf("%s, %s: %v", name, how, err)
				}
			}
			if n := len(image.Unsynced()); n != 0 {
				rt.Fatalf("%s: %d things are not durable after the crash", how, n)
			}
		}
	})
}

// step makes one random operation on the file and the model.
func step(rt *rapid.T, t *testing.T, m *model) {
	switch rapid.SampledFrom([]string{"write", "write", "append", "truncate", "sync"}).Draw(rt, "operation") {
	case "write":
		m.write(rt, t, rapid.IntRange(0, 10000).Draw(rt, "offset"))
	case "append":
		m.write(rt, t, len(m.last()))
	case "truncate":
		size := rapid.IntRange(0, 10000).Draw(rt, "size")
		check(t, m.file.Truncate(int64(size)))
		next := append(slices.Clone(m.last()), make([]byte, max(0, size-len(m.last())))...)
		m.versions = append(m.versions, next[:size])
	case "sync":
		check(t, m.file.Sync())
		m.versions = [][]byte{m.last()}
	}
}

func (m *model) write(rt *rapid.T, t *testing.T, off int) {
	data := bytes.Repeat([]byte{rapid.ByteRange('a', 'z').Draw(rt, "byte")}, rapid.IntRange(1, 6000).Draw(rt, "length"))
	write(t, m.file, int64(off), string(data))
	next := append(slices.Clone(m.last()), make([]byte, max(0, off+len(data)-len(m.last())))...)
	copy(next[off:], data)
	m.versions = append(m.versions, next)
}

// legal checks that image's size is that of a version, and that each of its sectors is that
// of a version, maybe cut by the end of another, or garbage beyond the end of some version.
func (m *model) legal(image []byte) error {
	if !slices.ContainsFunc(m.versions, func(v []byte) bool { return len(v) == len(image) }) {
		return fmt.Errorf("no version has %d bytes", len(image))
	}
	padded := func(v []byte, start, n int) []byte {
		sector := make([]byte, n)
		copy(sector, v[min(start, len(v)):])
		return sector
	}
	shortest := slices.MinFunc(m.versions, func(a, b []byte) int { return len(a) - len(b) })
	for start := 0; start < len(image); start += sectorSize {
		sector := image[start:min(start+sectorSize, len(image))]
		known := slices.ContainsFunc(m.versions, func(v []byte) bool {
			return bytes.Equal(sector, padded(v, start, len(sector))) || m.cutAt(v, sector, start)
		})
		garbage := start >= len(shortest) && bytes.ContainsFunc(sector, func(r rune) bool { return r > unicode.MaxASCII })
		if !known && !garbage {
			return fmt.Errorf("the sector at %d is in no version: %s", start, runs(sector))
		}
	}
	return nil
}

// cutAt reports whether sector is that of v cut by the end of another version.
func (m *model) cutAt(v, sector []byte, start int) bool {
	for _, shorter := range m.versions {
		if n := len(shorter) - start; n >= 0 && n < len(sector) {
			cut := make([]byte, len(sector))
			copy(cut[:n], v[min(start, len(v)):])
			if bytes.Equal(cut, sector) {
				return true
			}
		}
	}
	return false
}
