package log

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
)

// faultyLife is a script that goes on after errors, as a broker does. Every append that was taken is waited for.
func faultyLife(w *world) {
	if w.tryBoot() != nil {
		return
	}
	p, q := w.create("a", 1, 0, tiny()), w.create("a", 1, 1, tiny())
	produce := func(p *part, n int) {
		var xs []*pending
		for range n {
			x, err := p.append(batchSpec{records: 2, size: 120, pid: 1, seq: p.nextSequence(1)})
			if err != nil {
				continue
			}
			xs = append(xs, x)
			if dup, err := p.retry(x.try); err == nil {
				xs = append(xs, dup)
			}
		}
		for _, x := range xs {
			_ = x.wait()
		}
	}
	for range 3 {
		produce(p, 2)
		produce(q, 1)
	}
	_ = p.advance(5)
	produce(p, 1)
	if w.delete(q) == nil {
		produce(w.create("a", 2, 1, tiny()), 2)
	}
	_ = w.shut()
	w.kill()
	if w.tryBoot() != nil {
		return
	}
	produce(p, 2)
}

// notSlots matches every file but the durable offsets, whose slots rely on it that a write within a page happens or does not.
const notSlots = "[^d]*"

// failing is every way in which a disk fails that the log's operations meet: each error on any operation, and writes that stop half-way, as one does
// that a signal interrupts (EINTR) or for which the room ends.
func failing() (fs []vfs.Fault) {
	for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EMFILE} {
		fs = append(fs, vfs.Fault{Ops: vfs.OpAny, Err: err})
	}
	fs = append(fs, vfs.Fault{Ops: vfs.OpWrite, Path: notSlots, Err: syscall.EINTR, Partial: 7}, vfs.Fault{Ops: vfs.OpWrite, Path: "*.log", Err: syscall.ENOSPC, Partial: 100})
	for _, f := range fs {
		f.Sticky = true
		fs = append(fs, f)
	}
	return fs
}

// TestEveryOperationFails makes the first operation fail, then the second, and so on to the last, once or from then on. SLUICE_ERRORS_STRIDE=1 does so
// for every error; otherwise those that the log does not tell from EIO have but some operations.
func TestEveryOperationFails(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	runs := 0
	for i, f := range failing() {
		stride := int(crashtest.Env("SLUICE_ERRORS_STRIDE", 5))
		switch {
		case testing.Short():
			stride = 67
		case f.Err == syscall.EIO || f.Err == syscall.ENOSPC:
			stride = 1
		}
		f.Nth = 1 + i%stride
		for fired := true; fired; f.Nth += stride {
			var err error
			if fired, err = failNth(t, f); err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			runs++
		}
	}
	t.Logf("%d runs", runs)
}

// failNth lives with one fault, then restarts on a healthy disk, and checks what the promises are worth, also after a power cut.
func failNth(t *testing.T, f vfs.Fault) (fired bool, err error) {
	w := newWorld(t)
	w.in.Add(f)
	faultyLife(w)
	fired = w.in.Fired() > 0
	w.in.Heal()
	if w.dir != nil {
		w.kill()
	}
	ps, every := w.promises(), 1
	ps.closed = false
	if testing.Short() {
		every = 8
	}
	for name, img := range w.mem.SomeImages(1, every, f.Nth) {
		if err := checkImage(img, ps, false); err != nil {
			return fired, fmt.Errorf("power cut, image %q: %w", name, err)
		}
	}
	// The process alone ended: what it wrote can be read.
	d, err := start(w.mem, ps)
	if err != nil {
		return fired, err
	}
	defer abandon(d)
	if _, err := verifyAll(d, ps, true); err != nil {
		return fired, fmt.Errorf("kill: %w", err)
	}
	return fired, d.Close(context.Background())
}

// TestUnreadableParent: a data directory that was made and cannot be made durable is not used. One that somebody else has made is.
func TestUnreadableParent(t *testing.T) {
	mem, in := vfs.NewMem(), &vfs.Injector{}
	fs := vfs.Inject(mem, in)
	in.Add(vfs.Fault{Ops: vfs.OpSyncDir, Path: ".", Err: syscall.EACCES, Sticky: true})
	for range 2 {
		if _, err := Open("data", Options{FS: fs}); !errors.Is(err, syscall.EACCES) {
			t.Fatalf("opened what a power cut may take: %v", err)
		}
	}
	must(t, mem.Mkdir("data", 0o700))
	mustWait(t, mustAppend(t, openDir(t, fs).Log("a", testTopic, 0, tiny()), batchSpec{}))
}
