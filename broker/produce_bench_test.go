//go:build !race

package broker

import (
	"context"
	"strconv"
	"testing"
	"time"

	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// appendPath is a Produce of one batch from the parsed header to the resolved tickets, without the connection.
func appendPath(b *Broker, req *server.Request) {
	q, _ := scanProduce(req.Body, req.Version)
	c := newProduceCall(b)
	c.begin(b, req, q)
	c.appendAll()
	for i := range c.parts {
		if done, err := c.parts[i].ticket.Notify(&c.parts[i]); !done || err != nil || c.failed {
			panic("not appended")
		}
	}
	server.PutBuffer(c.out.b)
	c.release()
}

// newAppendPath gives a broker on the real disk and a request for it, of a batch of about size bytes.
func newAppendPath(t testing.TB, size int) (*Broker, *server.Request) {
	b, err := newBroker(Options{})
	check(t, err)
	b.dir, err = log.Open(t.TempDir(), log.Options{FS: vfs.Disk{}})
	check(t, err)
	t.Cleanup(func() { check(t, b.dir.Close(context.Background())) })
	b.topics = newTopics(b.dir, b.dispatch)
	r := rig{t: t, b: b}
	x := r.topic("a", 1, map[string]string{"sluice.durability": "os", "segment.bytes": "1073741824"})
	q := produceTo(x, 9, -1, recordBatch(1, size))
	q.SetVersion(9)
	return b, &server.Request{
		RequestHeader: kproto.RequestHeader{Version: 9},
		Body:          q.AppendTo(nil),
		Received:      time.Now(),
	}
}

func TestProduceAllocatesNothing(t *testing.T) {
	b, req := newAppendPath(t, 1000)
	pristine := string(req.Body)
	run := func() { copy(req.Body, pristine); appendPath(b, req) } // the log stamps the batch
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(2000, run); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

func BenchmarkProduceAppend(b *testing.B) {
	for _, size := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			broker, req := newAppendPath(b, size)
			pristine := string(req.Body)
			b.SetBytes(int64(len(req.Body)))
			b.ReportAllocs()
			for b.Loop() {
				copy(req.Body, pristine)
				appendPath(broker, req)
			}
		})
	}
}
