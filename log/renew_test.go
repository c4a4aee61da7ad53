package log

import (
	"context"
	"testing"

	"sluice/internal/crashtest"
	"sluice/internal/vfs"
)

// What recovery shows after a failed sync is on the disk afterwards, though the kernel took the bytes for clean: log and durable offsets.
func TestRecoveryAfterAFailedSync(t *testing.T) {
	mem, in := vfs.NewMem(), &vfs.Injector{}
	p := crashtest.NewProcess(vfs.Inject(mem, in))
	d := openDir(t, p)
	l := d.Log("t", testTopic, 0, DefaultConfig())
	mustWait(t, mustAppend(t, l, batchSpec{records: 2}))
	in.Add(vfs.Fault{Ops: vfs.OpSync | vfs.OpTruncate | vfs.OpRemove, Sticky: true})
	if _, err := l.AdvanceStart(context.Background(), 1); err == nil {
		t.Fatal("the start moved although no sync succeeds")
	}
	a := mustAppend(t, l, batchSpec{records: 3})
	if a.Ticket.Wait(context.Background()) == nil {
		t.Fatal("acknowledged although no sync succeeds")
	}
	p.Kill()
	abandon(d)
	in.Heal()

	seen := recovered(t, mem)
	if again := recovered(t, mem.Crash(vfs.KeepNothing)); again != seen {
		t.Errorf("recovery showed %+v, and after a power cut %+v", seen, again)
	}
}

func recovered(t *testing.T, fs vfs.FS) Offsets {
	t.Helper()
	p := crashtest.NewProcess(fs)
	d := openDir(t, p)
	o, err := d.Log("t", testTopic, 0, DefaultConfig()).Offsets()
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	abandon(d)
	return o
}
