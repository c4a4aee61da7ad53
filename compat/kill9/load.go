package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "kill9"
	partitions = 4
)

// codecs has one producer each, so that batches of every kind are torn.
var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

// impatient makes a client notice soon that the broker is back.
func impatient() []kgo.Opt {
	return []kgo.Opt{
		kgo.AlwaysRetryEOF(), // or the first connection that a kill closes is taken for a refusal
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}
}

// load is producers that write whenever the gate is open and never give up, and a consumer that watches.
type load struct {
	ledger    *ledger
	gate      sync.RWMutex // a producer holds it to read while it hands over; the driver holds it to write to pause them
	producers []*kgo.Client
	watcher   *kgo.Client
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// startLoad starts the clients, with the gate closed.
func startLoad(address string, seed uint64, l *ledger) (*load, error) {
	ctx, cancel := context.WithCancel(context.Background())
	work := &load{ledger: l, stop: cancel}
	work.gate.Lock()
	for n, codec := range codecs {
		client, err := kgo.NewClient(append(impatient(),
			kgo.SeedBrokers(address),
			kgo.DefaultProduceTopic(topic),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(codec),
			kgo.RequiredAcks(kgo.AllISRAcks()), // idempotent, which is the default with these acks
			kgo.UnknownTopicRetries(-1),
			kgo.StopProducerOnDataLossDetected(),
		)...)
		if err != nil {
			return nil, err
		}
		work.producers = append(work.producers, client)
		work.running.Go(func() { work.produce(ctx, client, n, rand.New(rand.NewPCG(seed, uint64(n)))) })
	}
	watcher, err := kgo.NewClient(append(impatient(), kgo.SeedBrokers(address), kgo.ConsumeTopics(topic))...)
	if err != nil {
		return nil, err
	}
	work.watcher = watcher
	work.running.Go(func() { work.watch(ctx) })
	return work, nil
}

// produce hands over small groups of records with pauses, so that the volume stays small and most kills meet a write.
func (w *load) produce(ctx context.Context, client *kgo.Client, producer int, random *rand.Rand) {
	for n := 0; ctx.Err() == nil; {
		w.gate.RLock()
		for range 1 + random.IntN(20) {
			if ctx.Err() == nil {
				w.handOver(ctx, client, id{producer, n}, random)
				n++
			}
		}
		w.gate.RUnlock()
		time.Sleep(time.Duration(random.IntN(8)) * time.Millisecond)
	}
}

func (w *load) handOver(ctx context.Context, client *kgo.Client, i id, random *rand.Rand) {
	value := make([]byte, valueSize(random))
	for b := range value {
		value[b] = "abcdefgh"[random.IntN(8)] // compresses to less than half
	}
	partition := int32(random.IntN(partitions))
	w.ledger.try(i, attempt{partition, digestOf(value)})
	client.Produce(context.WithoutCancel(ctx), &kgo.Record{Partition: partition, Key: i.key(), Value: value}, func(r *kgo.Record, err error) {
		w.ledger.finish(i, place{r.Partition, r.Offset}, err)
	})
}

// valueSize is mostly small, and now and then large enough that a kill can meet the middle of a write.
func valueSize(random *rand.Rand) int {
	if random.IntN(50) == 0 {
		return random.IntN(40_000)
	}
	return random.IntN(300)
}

// watch notes everything that the broker shows.
func (w *load) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w.watcher.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			w.ledger.see(place{r.Partition, r.Offset}, digestOf(r.Value))
		})
	}
}

// flush waits until every record that was handed over is acknowledged or refused.
func (w *load) flush(ctx context.Context) error {
	for _, client := range w.producers {
		if err := client.Flush(ctx); err != nil {
			return fmt.Errorf("wait for acknowledgements: %w", err)
		}
	}
	return nil
}

// close ends the clients; the gate must be closed, and is opened.
func (w *load) close() {
	w.stop()
	w.gate.Unlock()
	w.running.Wait()
	for _, client := range w.producers {
		client.Close()
	}
	w.watcher.Close()
}

// createTopic makes the topic, with segments so small that kills meet rolls.
func createTopic(ctx context.Context, address string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	segmentBytes := "1048576"
	_, err = kadm.NewClient(client).CreateTopic(ctx, partitions, 1, map[string]*string{"segment.bytes": &segmentBytes}, topic)
	return err
}

// readLogs reads every partition from its beginning to the end that it has now.
func readLogs(ctx context.Context, address string) ([][]stored, error) {
	client, err := kgo.NewClient(append(impatient(), kgo.SeedBrokers(address))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the ends of the log: %w", err)
	}
	logs := make([][]stored, partitions)
	starts := map[int32]kgo.Offset{}
	missing := int64(0)
	for p := range int32(partitions) {
		if end := ends[topic][p].Offset; end > 0 {
			starts[p] = kgo.NewOffset().At(0)
			missing += end
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts})
	for missing > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("read the log, with %d records to come: %w", missing, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[topic][r.Partition].Offset {
				missing--
				logs[r.Partition] = append(logs[r.Partition], stored{place{r.Partition, r.Offset}, r.Key, digestOf(r.Value)})
			}
		})
	}
	return logs, nil
}
