package sluice

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestProduceAndReplay(t *testing.T) {
	b, err := Start(Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	produceAndRead(t, b, 100)
}

func TestDataSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b, err := Start(Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	id := b.ClusterID()
	produceAndRead(t, b, 50)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, err = Start(Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.ClusterID() != id {
		t.Fatalf("cluster id %s became %s", id, b.ClusterID())
	}
	if got := read(t, b, 50); len(got) != 50 || got[49] != "value 49" {
		t.Fatalf("after a restart: %d records", len(got))
	}
}

func produceAndRead(t *testing.T, b *Broker, n int) {
	t.Helper()
	c := client(t, b, kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	for i := range n {
		c.Produce(context.Background(), kgo.StringRecord(fmt.Sprintf("value %d", i)), func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := c.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := read(t, b, n)
	for i := range n {
		if got[i] != fmt.Sprintf("value %d", i) {
			t.Fatalf("record %d is %q", i, got[i])
		}
	}
}

func read(t *testing.T, b *Broker, n int) []string {
	t.Helper()
	c := client(t, b, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	var got []string
	for len(got) < n {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(got), n, err)
		}
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addr()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func BenchmarkStartInMemory(b *testing.B) {
	for b.Loop() {
		x, err := Start(Options{InMemory: true})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkStartOnDisk(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		x, err := Start(Options{DataDir: filepath.Join(dir, fmt.Sprint(i))})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
