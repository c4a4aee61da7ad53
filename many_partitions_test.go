package sluice

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/crashtest"
)

// TestFewDescriptors: with 256 open files SLUICE_PARTITIONS of 4,000 partitions are written and read in random order, and nothing is lost. Connections beyond their share wait to be
// accepted while those that are there are served, and get their turn when others end.
func TestFewDescriptors(t *testing.T) {
	partitions := int(crashtest.Env("SLUICE_PARTITIONS", 400))
	limitFiles(t, 256)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := Start(Options{DataDir: t.TempDir(), Settings: map[string]string{"sluice.durability": "os"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 4000, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		var records []*kgo.Record
		for _, p := range rand.Perm(partitions) {
			records = append(records, &kgo.Record{Topic: "t", Partition: int32(p), Value: fmt.Appendf(nil, "%d of %d", round, p)})
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	readBack(t, ctx, b.Addr(), partitions)
	overrun(t, ctx, b, admin)
	if n := b.files.segments; n != 64 {
		t.Errorf("%d segment files", n)
	}
}

// limitFiles lowers the limit of this process for the length of a test.
func limitFiles(t *testing.T, n uint64) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
}

// readBack wants both records of each partition, in order.
func readBack(t *testing.T, ctx context.Context, addr string, partitions int) {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	seen := map[int32]int{}
	for left := 2 * partitions; left > 0; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d records are missing", left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprintf("%d of %d", seen[r.Partition], r.Partition); string(r.Value) != want {
				t.Fatalf("%q, want %q", r.Value, want)
			}
			seen[r.Partition]++
			left--
		})
	}
}

// overrun opens more connections than may be.
func overrun(t *testing.T, ctx context.Context, b *Broker, admin *kadm.Client) {
	t.Helper()
	limitFiles(t, 1024) // the clients are in this process too
	var conns []net.Conn
	for range b.files.connections + 20 {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if _, err := admin.ListTopics(ctx); err != nil {
		t.Errorf("metadata beside too many connections: %v", err)
	}
	for _, c := range conns {
		c.Close()
	}
	late, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if err := late.Ping(ctx); err != nil {
		t.Errorf("after the others have gone: %v", err)
	}
}
