package sluice

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// BenchmarkProduce is a Produce request and its reply over TCP, one at a time: the allocations are the broker's, the client here makes none.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			broker := newBenchBroker(b)
			c := dial(b, broker)
			request := produceFrame(size)
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for b.Loop() {
				c.send(request)
				c.receive()
			}
		})
	}
}

// BenchmarkTail is how long a record takes from a producer to a consumer that waits for it: one parked Fetch, one Produce.
func BenchmarkTail(b *testing.B) {
	broker := newBenchBroker(b)
	producer, consumer := dial(b, broker), dial(b, broker)
	produce, fetch := produceFrame(1000), newFetchFrames()
	b.ReportAllocs()
	for offset := int64(1); b.Loop(); offset++ { // record 0 made the topic
		consumer.send(fetch.at(offset))
		producer.send(produce)
		consumer.receive()
		producer.receive()
	}
}

const benchTopic = "bench"

// newBenchBroker gives a broker on disk, in mode os, with a topic that has one record.
func newBenchBroker(b *testing.B) *Broker {
	b.Helper()
	broker, err := Start(Options{DataDir: filepath.Join(b.TempDir(), "data"), Settings: map[string]string{"sluice.durability": "os"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := broker.Close(); err != nil {
			b.Error(err)
		}
	})
	c, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.AllowAutoTopicCreation())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(context.Background(), &kgo.Record{Topic: benchTopic}).FirstErr(); err != nil {
		b.Fatal(err)
	}
	return broker
}

// wire is a client that knows no more than frames.
type wire struct {
	b  *testing.B
	nc net.Conn
	in []byte
}

func dial(b *testing.B, broker *Broker) *wire {
	nc, err := net.Dial("tcp", broker.Addr())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nc.Close() })
	return &wire{b: b, nc: nc, in: make([]byte, 1<<20)}
}

func (w *wire) send(frame []byte) {
	if _, err := w.nc.Write(frame); err != nil {
		w.b.Fatal(err)
	}
}

func (w *wire) receive() {
	if _, err := io.ReadFull(w.nc, w.in[:4]); err != nil {
		w.b.Fatal(err)
	}
	if _, err := io.ReadFull(w.nc, w.in[:binary.BigEndian.Uint32(w.in)]); err != nil {
		w.b.Fatal(err)
	}
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))

func produceFrame(size int) []byte {
	batch := kproto.NewBuilder(kproto.None)
	batch.Add(kproto.Record{Timestamp: 1, Value: make([]byte, size)})
	q := kmsg.NewPtrProduceRequest()
	q.SetVersion(8)
	q.Acks, q.TimeoutMillis = -1, 10_000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: benchTopic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch.Batch()}}}}
	return formatter.AppendRequest(nil, q, 1)
}

// fetchFrames makes long polls without a session.
type fetchFrames struct {
	request *kmsg.FetchRequest
	frame   []byte
}

func newFetchFrames() *fetchFrames {
	q := kmsg.NewPtrFetchRequest()
	q.SetVersion(11)
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = 10_000, 1, 1<<20, -1
	q.Topics = []kmsg.FetchRequestTopic{{Topic: benchTopic, Partitions: []kmsg.FetchRequestTopicPartition{{
		CurrentLeaderEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: 1 << 20,
	}}}}
	return &fetchFrames{request: q}
}

func (f *fetchFrames) at(offset int64) []byte {
	f.request.Topics[0].Partitions[0].FetchOffset = offset
	f.frame = formatter.AppendRequest(f.frame[:0], f.request, 1)
	return f.frame
}
