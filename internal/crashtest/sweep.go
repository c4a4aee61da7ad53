package crashtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"sluice/internal/vfs"
)

// maxErrors is how many violations a Sweep keeps; the first few tell all.
const maxErrors = 5

// Sweep enumerates the power cuts of one run. Its methods are safe for concurrent use.
type Sweep[Promises any] struct {
	Name string
	// Observe runs before each operation, in the goroutine that makes it: the place to look, as a consumer does, at what is visible. It must wait for
	// nothing that the program under test may hold: a lock, a place in a queue. May be nil.
	Observe func()
	// Promises takes down what holds from now on, whatever happens.
	Promises func() Promises
	// Check opens an image, which it may change, and compares. killed says that nothing written is lost, as after kill -9.
	Check func(img *vfs.Mem, p Promises, killed bool) error
	// Seeds is how many random images are made at each moment.
	Seeds int
	// Stride looks at every Stride-th operation only; 0 and 1 mean all.
	Stride int
	// Offset shifts the stride.
	Offset int
	// Every checks each Every-th image of a moment only, and those in which nothing and everything is kept; 0 and 1 mean all.
	Every int

	mu     sync.Mutex
	images int
	points map[string]int // by name
	errs   []error
}

// Attach watches the operations on m from now on.
func (s *Sweep[P]) Attach(m *vfs.Mem) {
	m.OnOp(func(op vfs.Op) {
		if s.Observe != nil {
			s.Observe()
		}
		if s.Stride > 1 && (op.N+s.Offset)%s.Stride != 0 {
			return
		}
		s.Cut(m, fmt.Sprintf("%v %s", op.Kind, class(op.Name)), op.N)
	})
}

// Cut checks all images of a power cut now. The point is its name, n tells cuts of one name apart.
func (s *Sweep[P]) Cut(m *vfs.Mem, point string, n int) {
	m.Pause(func() { s.cut(m, point, n) })
}

// cut runs while m stands still: a sync that failed between the promises and the images would make the images look broken.
func (s *Sweep[P]) cut(m *vfs.Mem, point string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.points == nil {
		s.points = map[string]int{}
	}
	s.points[point]++
	p := s.Promises()
	for name, img := range m.SomeImages(s.Seeds, max(1, s.Every), s.images) {
		s.images++
		if err := s.Check(img, p, name == "everything"); err != nil && len(s.errs) < maxErrors {
			s.errs = append(s.errs, fmt.Errorf("%s: power cut before operation %d (%s), image %q: %w", s.Name, n, point, name, err))
		}
	}
}

// class is a file's name without its numbers, so that points keep their names from run to run.
func class(name string) string {
	dir, base := filepath.Split(filepath.Clean(name))
	if ext := filepath.Ext(base); len(base) >= 20 && ext != "" {
		return filepath.Base(dir) + "/*" + ext
	}
	return filepath.Base(dir) + "/" + base
}

// Images is the number of images checked.
func (s *Sweep[P]) Images() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.images
}

// Points gives the names of the moments at which the power was cut, and how often at each.
func (s *Sweep[P]) Points() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.points)
}

// Err is the first violations, or nil.
func (s *Sweep[P]) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// Env reads a number from the environment: how much work a long run is to do, and from which seed.
func Env(name string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}
