package log

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// BenchmarkGroupCommit is a round of 4 KiB appended to each partition and made durable: how long it takes by the number of partitions, of
// syncs at once, and with or without somebody else's writing on the same disk. The ns of a round are the figure; docs/decisions.md draws the
// conclusion.
func BenchmarkGroupCommit(b *testing.B) {
	for _, partitions := range []int{1, 16, 100, 500} {
		for _, syncers := range []int{1, 4, 16, 32} {
			for _, foreign := range []bool{false, true} {
				if partitions == 1 && syncers > 1 {
					continue
				}
				b.Run(fmt.Sprintf("partitions=%d/syncers=%d/foreign=%t", partitions, syncers, foreign), func(b *testing.B) {
					g := newGroupCommit(b, partitions, syncers)
					if foreign {
						writeBeside(b)
					}
					g.round(b) // makes the files
					for b.Loop() {
						g.round(b)
					}
					b.ReportMetric(float64(b.N*partitions)/b.Elapsed().Seconds(), "commits/s")
				})
			}
		}
	}
}

type groupCommit struct {
	logs    []*Log
	sent, b kproto.Batch
	tickets []Ticket
}

func newGroupCommit(b *testing.B, partitions, syncers int) *groupCommit {
	d, err := Open(b.TempDir(), Options{FS: vfs.Disk{}, Syncers: syncers})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close(context.Background()) })
	g := &groupCommit{sent: makeBatch(batchSpec{size: 4000, time: 1000})}
	g.b = append(kproto.Batch(nil), g.sent...)
	for p := range partitions {
		g.logs = append(g.logs, d.Log("t", testTopic, int32(p), DefaultConfig()))
	}
	return g
}

func (g *groupCommit) round(b *testing.B) {
	g.tickets = g.tickets[:0]
	for _, l := range g.logs {
		copy(g.b, g.sent)
		a, err := l.Append(g.b, AppendOptions{})
		if err != nil {
			b.Fatal(err)
		}
		g.tickets = append(g.tickets, a.Ticket)
	}
	for _, t := range g.tickets {
		if err := t.Wait(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// A foreign writer fills the page cache at about 250 MB/s and never syncs, over a file of foreignSize bytes again and again.
const (
	foreignBlock = 1 << 20
	foreignPause = 4 * time.Millisecond
	foreignSize  = 1 << 30
)

func writeBeside(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "foreign"))
	if err != nil {
		b.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		block := make([]byte, foreignBlock)
		for at := int64(0); ; at = (at + foreignBlock) % foreignSize {
			select {
			case <-stop:
				return
			case <-time.After(foreignPause):
			}
			if _, err := f.WriteAt(block, at); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	b.Cleanup(func() {
		close(stop)
		<-done
		_ = f.Close()
	})
}
