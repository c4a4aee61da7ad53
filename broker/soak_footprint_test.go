package broker

import (
	iofs "io/fs"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"testing/synctest"
	"unsafe"

	"sluice/internal/vfs"
)

// footprint is what the process takes at an hour's end.
type footprint struct {
	heap       int64 // after a collection, without the disk and the test's own book, bytes
	goroutines int64
	files      int64 // open
}

func (s *soak) footprint() footprint {
	synctest.Wait()
	runtime.GC()
	runtime.GC() // the second empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	own := s.disk.Held() + int64(cap(s.taken))*int64(unsafe.Sizeof(footprint{}))
	for _, b := range s.books {
		own += int64(cap(b.written)) * int64(unsafe.Sizeof(b.written[0]))
	}
	return footprint{int64(m.HeapAlloc) - own, int64(runtime.NumGoroutine()), s.fs.open.Load()}
}

// figures are what is held to a slope.
var figures = []struct {
	name string
	of   func(footprint) int64
}{
	{"heap", func(f footprint) int64 { return f.heap }},
	{"goroutines", func(f footprint) int64 { return f.goroutines }},
	{"open files", func(f footprint) int64 { return f.files }},
}

// slope tells the growth of hourly figures, in percent a day: of the least of the first quarter, towards the least of the last. What is held for a
// moment does not lift the least of many hours; what is never given back does.
func slope(hourly []int64) float64 {
	quarter := len(hourly) / 4
	first, last := floor(hourly[:quarter]), floor(hourly[len(hourly)-quarter:])
	days := float64(len(hourly)-quarter) / 24
	return 100 * float64(last-first) / float64(first) / days
}

func floor(hourly []int64) int64 {
	least := int64(math.MaxInt64)
	for _, n := range hourly {
		least = min(least, n)
	}
	return least
}

// countedFiles counts the files that are open.
type countedFiles struct {
	vfs.FS
	open atomic.Int64
}

type countedFile struct {
	vfs.File
	of *countedFiles
}

func (c *countedFiles) OpenFile(name string, flag int, perm iofs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return countedFile{f, c}, nil
}

func (f countedFile) Close() error {
	f.of.open.Add(-1)
	return f.File.Close()
}

func (f countedFile) OS() *os.File { return nil }
