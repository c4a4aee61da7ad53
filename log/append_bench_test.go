//go:build !race

package log

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// newDiskLog gives a partition on the real disk.
func newDiskLog(t testing.TB, mode Durability) *Log {
	t.Helper()
	d, err := Open(t.TempDir(), Options{FS: vfs.Disk{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := DefaultConfig()
	c.Durability = mode
	return d.Log("t", testTopic, 0, c)
}

// refill makes b once more a batch as a client sends it, since Append stamps it: the n-th of its producer. Its CRC is then wrong, which
// is not Append's to check.
func refill(b, sent kproto.Batch, n int) {
	const posBaseSequence = 53
	copy(b, sent)
	if sent.ProducerID() >= 0 {
		binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(n)*uint32(sent.Count()))
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	for name, spec := range map[string]batchSpec{
		"plain":      {size: 1000, time: 1000},
		"idempotent": {size: 1000, time: 1000, pid: 5},
	} {
		t.Run(name, func(t *testing.T) {
			l := newDiskLog(t, OS)
			sent := makeBatch(spec)
			b, n := append(kproto.Batch(nil), sent...), 0
			run := func() {
				refill(b, sent, n)
				n++
				if _, err := l.Append(b, AppendOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			run()
			if got := testing.AllocsPerRun(2000, run); got > 0 {
				t.Errorf("%v allocations a batch", got)
			}
		})
	}
}

// BenchmarkAppend is stage one; in mode fsync the syncs go on beside it.
func BenchmarkAppend(b *testing.B) {
	for _, mode := range []Durability{OS, Fsync} {
		for _, size := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", mode, size), func(b *testing.B) {
				l := newDiskLog(b, mode)
				sent := makeBatch(batchSpec{size: size, time: 1000, pid: 5})
				batch, n := append(kproto.Batch(nil), sent...), 0
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				for b.Loop() {
					refill(batch, sent, n)
					n++
					if _, err := l.Append(batch, AppendOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDurable is an append and the wait for its ticket: one sync each, as for a single producer without pipelining.
func BenchmarkDurable(b *testing.B) {
	for _, size := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newDiskLog(b, Fsync)
			sent := makeBatch(batchSpec{size: size, time: 1000})
			batch := append(kproto.Batch(nil), sent...)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				refill(batch, sent, 0)
				a, err := l.Append(batch, AppendOptions{})
				if err != nil {
					b.Fatal(err)
				}
				mustWait(b, a)
			}
		})
	}
}
