package log

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"go.uber.org/goleak"

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

// TestEveryOperationFails makes the first operation fail, then the second, and so on to the last, once or from then on.
func TestEveryOperationFails(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	stride := 1
	if testing.Short() {
		stride = 7
	}
	runs := 0
	for _, f := range []vfs.Fault{
		{Ops: vfs.OpAny, Err: syscall.EIO},
		{Ops: vfs.OpAny, Err: syscall.EIO, Sticky: true},
		{Ops: vfs.OpAny, Err: syscall.ENOSPC},
		{Ops: vfs.OpAny, Err: syscall.ENOSPC, Sticky: true},
		{Ops: vfs.OpWrite, Path: "*.log", Err: syscall.ENOSPC, Partial: 1},
		{Ops: vfs.OpWrite, Path: "*.log", Err: syscall.ENOSPC, Partial: 100, Sticky: true},
	} {
		for fired := true; fired; f.Nth += stride {
			f.Nth = max(f.Nth, 1)
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
	ps := w.promises()
	ps.closed = false
	for name, img := range w.mem.Images(1) {
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
