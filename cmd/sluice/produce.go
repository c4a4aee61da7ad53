package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type produceCmd struct {
	clientFlags `embed:""`
	outputFlag  `embed:""`

	Topic         string        `arg:"" help:"Topic to write to. The broker may create it, if it is set to."`
	File          []string      `short:"f" sep:"none" type:"existingfile" xor:"source" placeholder:"FILE" help:"Read lines from this file instead of standard input; may be repeated."`
	FilePerRecord string        `type:"existingdir" xor:"source" placeholder:"DIR" help:"Make each file below DIR one record, with its path relative to DIR as the key."`
	KeyDelimiter  string        `short:"K" placeholder:"TEXT" help:"Split each line at the first TEXT into key and value. A line without it has no key."`
	Header        []keyValue    `short:"H" sep:"none" placeholder:"KEY=VALUE" help:"Header of every record; may be repeated."`
	NullValue     *string       `placeholder:"TEXT" help:"A value that is exactly TEXT becomes null, which deletes its key in a compacted topic."`
	Partition     int32         `short:"p" default:"-1" placeholder:"N" help:"Write to this partition (default: by the hash of the key, as Kafka's Java client does)."`
	Codec         string        `short:"z" enum:"none,gzip,snappy,lz4,zstd" default:"none" placeholder:"CODEC" help:"Compression: none, gzip, snappy, lz4 or zstd."`
	Acks          string        `enum:"0,1,all" default:"all" placeholder:"0|1|all" help:"What to wait for: 0 nothing, 1 the leader, all the replicas in sync."`
	Idempotence   *bool         `negatable:"" help:"Let the broker drop what a retry sends twice (default: on with --acks all)."`
	MaxBytes      int           `default:"1048576" placeholder:"N" help:"Largest record, and largest batch before compression (default: ${default})."`
	SkipLarge     bool          `help:"Skip lines and files larger than --max-bytes instead of failing."`
	Timeout       time.Duration `default:"2m" placeholder:"DURATION" help:"Give up on a record after this time (default: ${default})."`
}

// maxBufferedBytes bounds the records that wait for the broker, in bytes, so that a slow broker slows the reading of the
// input down instead of filling the memory.
const maxBufferedBytes = 64 << 20

// Validate refuses combinations that cannot be kept.
func (c *produceCmd) Validate() error {
	if c.Idempotence != nil && *c.Idempotence && c.Acks != "all" {
		return errors.New("--idempotence needs --acks all")
	}
	if c.MaxBytes < 1 || c.MaxBytes > maxBufferedBytes {
		return fmt.Errorf("--max-bytes must be between 1 and %d", maxBufferedBytes)
	}
	if c.Partition < -1 {
		return errors.New("--partition must not be negative")
	}
	if c.FilePerRecord != "" && c.KeyDelimiter != "" {
		return errors.New("--key-delimiter is for lines; with --file-per-record the path is the key")
	}
	return nil
}

// Run writes the records of the input in order and stops at the first failure, so that what was acknowledged is the
// beginning of the input.
func (c *produceCmd) Run(ctx context.Context, s *streams) error {
	client, err := c.connect(ctx, s, c.options()...)
	if err != nil {
		return err
	}
	defer client.Close()
	input, err := c.input(s)
	if err != nil {
		return err
	}
	var t tally
	bar := startProgress(s.err, input, &t)
	begin := time.Now()
	inputErr := c.send(ctx, client, input.records, &t)
	bar.stop()
	return errors.Join(c.summarize(s.out, &t, input.skipped(), time.Since(begin)), t.err(), inputErr)
}

func (c *produceCmd) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(c.Topic),
		kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchCompression(codecs[c.Codec]),
		kgo.ProducerBatchMaxBytes(int32(c.MaxBytes)),
		kgo.MaxBufferedBytes(maxBufferedBytes),
		kgo.RecordDeliveryTimeout(c.Timeout),
		kgo.RequiredAcks(acks[c.Acks]),
	}
	if c.Acks != "all" || (c.Idempotence != nil && !*c.Idempotence) {
		opts = append(opts, kgo.DisableIdempotentWrite())
	} else {
		// --timeout holds even for a record whose fate is unknown, as the broker went away before it answered. Nothing is
		// sent after the first failure, so the gap in the sequence numbers meets nobody.
		opts = append(opts, kgo.AllowIdempotentProduceCancellation())
	}
	if c.Partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

// send produces the records until the input ends, fails, is interrupted or a record is refused, then waits for the
// acknowledgements of what it sent. It returns the input's error; the tally has the records'.
func (c *produceCmd) send(ctx context.Context, client *kgo.Client, records iter.Seq2[*kgo.Record, error], t *tally) error {
	// The records' own context is never cancelled: an interrupt stops the reading, not what is under way.
	sending := context.WithoutCancel(ctx)
	var inputErr error
	for r, err := range interruptible(ctx, records) {
		if err != nil {
			inputErr = err
			break
		}
		r.Headers = c.headers()
		r.Partition = c.Partition
		client.Produce(sending, r, t.finished)
		if t.failures() > 0 {
			break
		}
	}
	return errors.Join(inputErr, client.Flush(sending))
}

func (c *produceCmd) headers() []kgo.RecordHeader {
	var headers []kgo.RecordHeader
	for _, kv := range c.Header {
		headers = append(headers, kgo.RecordHeader{Key: kv.key, Value: []byte(kv.value)})
	}
	return headers
}

// interruptible yields what records yields, and ends with errInterrupted when ctx does. The reading happens in a
// goroutine of its own, since a read of standard input cannot be cancelled.
func interruptible(ctx context.Context, records iter.Seq2[*kgo.Record, error]) iter.Seq2[*kgo.Record, error] {
	type item struct {
		record *kgo.Record
		err    error
	}
	return func(yield func(*kgo.Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		items := make(chan item, 64) // a few, so that the two goroutines rarely wait for each other
		go func() {
			defer close(items)
			for r, err := range records {
				select {
				case items <- item{r, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			select {
			case <-ctx.Done():
				yield(nil, errInterrupted)
				return
			case i, ok := <-items:
				if !ok || !yield(i.record, i.err) {
					return
				}
			}
		}
	}
}

// produceSummary is what `produce -o json` prints. Bytes are those of keys and values.
type produceSummary struct {
	Records int64   `json:"records"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Failed  int64   `json:"failed"`
	Skipped int64   `json:"skipped"`
}

func (c *produceCmd) summarize(w io.Writer, t *tally, skipped int64, took time.Duration) error {
	records, bytes := t.acknowledged()
	sum := produceSummary{Records: records, Bytes: bytes, Seconds: took.Seconds(), Failed: t.failures(), Skipped: skipped}
	return c.print(w, sum, func(w io.Writer) {
		fmt.Fprintf(w, "%d records, %d bytes, %.3f s", sum.Records, sum.Bytes, sum.Seconds)
		if sum.Failed > 0 {
			fmt.Fprintf(w, ", %d failed", sum.Failed)
		}
		if sum.Skipped > 0 {
			fmt.Fprintf(w, ", %d skipped as too large", sum.Skipped)
		}
		fmt.Fprintln(w)
	})
}
