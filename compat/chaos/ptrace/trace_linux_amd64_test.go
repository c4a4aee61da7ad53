package ptrace

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// The traced program is this test binary: it writes from many goroutines at once and says how many writes failed with which error.
const (
	writerVariable = "PTRACE_TEST_FILE"
	goroutines     = 8
	writesEach     = 20
)

func TestMain(m *testing.M) {
	Init()
	if name := os.Getenv(writerVariable); name != "" {
		os.Exit(writer(name))
	}
	os.Exit(m.Run())
}

// writer makes its writes at places of their own and gives the number that failed with EIO.
func writer(name string) int {
	f, err := os.Create(name)
	if err != nil {
		return 100
	}
	var wg sync.WaitGroup
	failed := make(chan error, goroutines*writesEach+1)
	for g := range goroutines {
		wg.Go(func() {
			for i := range writesEach {
				if _, err := f.WriteAt([]byte{1}, int64(g*writesEach+i)); err != nil {
					failed <- err
				}
			}
		})
	}
	wg.Wait()
	if _, err := f.WriteAt([]byte{0, 0}, blockBytes-1); err != nil { // one more, over the end of a block
		failed <- err
	}
	close(failed)
	n := 0
	for err := range failed {
		if !errors.Is(err, syscall.EIO) {
			return 101
		}
		n++
	}
	return n
}

// traced runs the writer under the plan and gives the file's bytes.
func traced(t *testing.T, p Plan) (Result, []byte) {
	t.Helper()
	p.Under = t.TempDir()
	p.Calls = []string{"pwrite64", "fsync"}
	name := filepath.Join(p.Under, "file")
	t.Setenv(writerVariable, name)
	c, err := Start(p, []string{"/proc/self/exe"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	r, err := c.Result()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return r, data
}

const total = goroutines * writesEach

func TestCountsOverAllThreads(t *testing.T) {
	r, data := traced(t, Plan{})
	if r.Exit != 0 || r.Counts["pwrite64"] != total+1 || r.Counts["fsync"] != 0 || r.Hits != 0 || written(data) != total {
		t.Errorf("%+v, %d bytes written", r, written(data))
	}
}

func TestKillsBeforeTheCall(t *testing.T) {
	for _, n := range []int{1, 2, 77, total} {
		r, data := traced(t, Plan{When: n, Kill: true})
		// Calls that other threads had begun before the kill may still be carried out.
		if r.Exit != 128+int(syscall.SIGKILL) || r.Counts["pwrite64"] < n || written(data) >= total {
			t.Errorf("kill at %d: %+v, %d bytes written", n, r, written(data))
		}
	}
}

func TestFailsCalls(t *testing.T) {
	for _, c := range []struct {
		when   int
		sticky bool
		failed int
	}{{1, false, 1}, {50, false, 1}, {total, false, 1}, {50, true, total - 48}, {1, true, total + 1}, {total + 2, true, 0}} {
		mark := filepath.Join(t.TempDir(), "mark")
		r, data := traced(t, Plan{When: c.when, Sticky: c.sticky, Errno: syscall.EIO, Mark: mark})
		if _, err := os.Stat(mark); (err == nil) != (c.failed > 0) {
			t.Errorf("%+v: mark: %v", c, err)
		}
		if r.Exit != c.failed&0xff || r.Hits != c.failed || written(data) != total-min(c.failed, max(0, total-c.when+1)) {
			t.Errorf("%+v: %+v, %d bytes written", c, r, written(data))
		}
	}
}

// A write of two bytes over the end of a block leaves the first; one within a block leaves nothing.
func TestFailsHalfWay(t *testing.T) {
	r, data := traced(t, Plan{When: total + 1, Errno: syscall.EIO, Partial: true})
	if r.Exit != 1 || r.Hits != 1 || len(data) != blockBytes {
		t.Errorf("%+v, %d bytes in the file", r, len(data))
	}
	if r, data := traced(t, Plan{When: 1, Errno: syscall.EIO, Partial: true}); r.Exit != 1 || written(data) != total-1 {
		t.Errorf("%+v, %d bytes written", r, written(data))
	}
}

func TestOnlyBelowTheDirectory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	t.Setenv(writerVariable, name)
	c, err := Start(Plan{Calls: []string{"pwrite64"}, Under: t.TempDir(), When: 1, Kill: true}, []string{"/proc/self/exe"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if r, err := c.Result(); err != nil || r.Exit != 0 || r.Counts["pwrite64"] != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestUnknownCall(t *testing.T) {
	c, err := Start(Plan{Calls: []string{"nonsense"}}, []string{"/proc/self/exe"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if r, err := c.Result(); err != nil || r.Exit == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func written(data []byte) (n int) {
	for _, b := range data {
		n += int(b)
	}
	return n
}
