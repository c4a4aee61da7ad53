package checks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is the time between two looks at metadata: libraries answer from a cache, so that a change may show a
// little later.
const pollInterval = 50 * time.Millisecond

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// all is the list of checks, in the order in which they run.
func all() []check {
	list := []check{
		{"topic create, count, delete", createDelete},
		{"topic create twice", createTwice},
		{"topic delete a missing one", deleteMissing},
		{"topic created again is empty", createAgain},
		{"topic gets more partitions", addPartitions},
		{"topic config describe and alter", alterConfig},
	}
	for _, codec := range codecs {
		for _, acks := range []int{0, 1, -1} {
			list = append(list, check{fmt.Sprintf("produce %s acks=%d", codec, acks), roundTrip(Produce{Codec: codec, Acks: acks})})
		}
		list = append(list, check{"produce " + codec + " idempotent", roundTrip(Produce{Codec: codec, Acks: -1, Idempotent: true})})
	}
	return append(list,
		check{"produce nulls and empties", nulls},
		check{"produce headers", headers},
		check{"produce to many partitions", manyPartitions},
		check{"produce a large record", large},
		check{"produce too large a record", tooLarge},
		check{"read from each offset of a batch", fromEachOffset},
		check{"read by timestamp", byTimestamp},
		check{"read at earliest and latest", earliestLatest},
		check{"read seeks back and forth", seek},
		check{"read waits for records", longPoll},
		check{"read beyond the end", outOfRange},
		check{"read after records were deleted", deletedRecords},
	)
}

func createDelete(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 3, nil); err != nil {
		return err
	}
	if err := wantPartitions(ctx, c, topic, 3); err != nil {
		return err
	}
	if err := c.DeleteTopic(ctx, topic); err != nil {
		return err
	}
	for {
		_, err := c.Partitions(ctx, topic)
		if err != nil || ctx.Err() != nil {
			return wantError(err, ErrUnknownTopic)
		}
		time.Sleep(pollInterval)
	}
}

func createTwice(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	return wantError(c.CreateTopic(ctx, topic, 1, nil), ErrTopicExists)
}

func deleteMissing(ctx context.Context, c Client, topic string) error {
	return wantError(c.DeleteTopic(ctx, topic), ErrUnknownTopic)
}

// createAgain: a topic of the same name is another topic, and shows nothing of the first one's records.
func createAgain(ctx context.Context, c Client, topic string) error {
	for range 2 {
		if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
			return err
		}
		end, err := c.Offset(ctx, topic, 0, Latest)
		if err != nil {
			return err
		}
		if end != 0 {
			return fmt.Errorf("a new topic ends at offset %d", end)
		}
		if err := c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, numbered(3, 0)); err != nil {
			return err
		}
		if err := c.DeleteTopic(ctx, topic); err != nil {
			return err
		}
	}
	return nil
}

func addPartitions(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	if err := c.AddPartitions(ctx, topic, 4); err != nil {
		return err
	}
	return wantPartitions(ctx, c, topic, 4)
}

func alterConfig(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, map[string]string{"retention.ms": "3600000"}); err != nil {
		return err
	}
	if err := wantConfig(ctx, c, topic, "retention.ms", "3600000"); err != nil {
		return err
	}
	if err := c.SetTopicConfig(ctx, topic, "retention.ms", "7200000"); err != nil {
		return err
	}
	if err := wantConfig(ctx, c, topic, "retention.ms", "7200000"); err != nil {
		return err
	}
	return wantConfig(ctx, c, topic, "cleanup.policy", "delete") // a default
}

// roundTrip writes records with keys, values, headers and timestamps, and reads the same.
func roundTrip(how Produce) func(context.Context, Client, string) error {
	return func(ctx context.Context, c Client, topic string) error {
		if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
			return err
		}
		written := numbered(500, 0)
		for i, r := range written {
			r.Headers = []Header{{"n", fmt.Append(nil, i)}}
		}
		if err := c.Produce(ctx, topic, how, written); err != nil {
			return err
		}
		for i, r := range written {
			if how.Acks != 0 && r.Offset != int64(i) {
				return fmt.Errorf("record %d was acknowledged at offset %d", i, r.Offset)
			}
			r.Offset = int64(i)
		}
		return wantRecords(ctx, c, topic, 0, 0, written)
	}
}

// nulls: null is not empty, for keys and for values.
func nulls(ctx context.Context, c Client, topic string) error {
	return writeAndRead(ctx, c, topic, []*Record{
		{Key: nil, Value: []byte("no key")},
		{Key: []byte{}, Value: []byte("empty key")},
		{Key: []byte("no value"), Value: nil},
		{Key: []byte("empty value"), Value: []byte{}},
		{Key: nil, Value: nil},
	})
}

// headers: the order stays, keys may repeat and be empty, values may be empty and any bytes.
func headers(ctx context.Context, c Client, topic string) error {
	return writeAndRead(ctx, c, topic, []*Record{
		{Value: []byte("a"), Headers: []Header{{"b", []byte("2")}, {"a", []byte("1")}, {"b", []byte("3")}}},
		{Value: []byte("b"), Headers: []Header{{"empty", []byte{}}, {"", []byte("no key")}, {"bytes", []byte{0, 0xff}}}},
		{Value: []byte("c")},
	})
}

func writeAndRead(ctx context.Context, c Client, topic string, records []*Record) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	for _, r := range records {
		r.Timestamp = baseTime
	}
	if err := c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, records); err != nil {
		return err
	}
	return wantRecords(ctx, c, topic, 0, 0, records)
}

// manyPartitions: each partition has its records in the order of writing.
func manyPartitions(ctx context.Context, c Client, topic string) error {
	const partitions = 7
	if err := c.CreateTopic(ctx, topic, partitions, nil); err != nil {
		return err
	}
	var written []*Record
	each := make([][]*Record, partitions)
	for i, r := range numbered(partitions*40, 0) {
		r.Partition = int32(i % partitions)
		written = append(written, r)
		each[r.Partition] = append(each[r.Partition], r)
	}
	if err := c.Produce(ctx, topic, Produce{Codec: "lz4", Acks: -1}, written); err != nil {
		return err
	}
	for p, records := range each {
		if err := wantRecords(ctx, c, topic, int32(p), 0, records); err != nil {
			return err
		}
	}
	return nil
}

func large(ctx context.Context, c Client, topic string) error {
	return writeAndRead(ctx, c, topic, []*Record{{Value: noise(900_000)}, {Value: []byte("small")}})
}

func tooLarge(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, map[string]string{"max.message.bytes": "10000"}); err != nil {
		return err
	}
	records := []*Record{{Value: noise(20_000), Timestamp: baseTime}}
	return wantError(c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, records), ErrTooLarge)
}

// fromEachOffset reads from every offset of two batches, most of which lie in the middle of one.
func fromEachOffset(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	first, second := numbered(6, 0), numbered(6, 6)
	for _, batch := range [][]*Record{first, second} {
		if err := c.Produce(ctx, topic, Produce{Codec: "gzip", Acks: -1}, batch); err != nil {
			return err
		}
	}
	written := append(first, second...)
	for i := range written {
		if err := wantRecords(ctx, c, topic, 0, int64(i), written[i:]); err != nil {
			return fmt.Errorf("from offset %d: %w", i, err)
		}
	}
	return nil
}

// byTimestamp: the records are ten milliseconds apart, the times asked for lie on them, between, before and after.
func byTimestamp(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	written := numbered(100, 0)
	if err := c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, written); err != nil {
		return err
	}
	base := baseTime.UnixMilli()
	for delta, want := range map[int64]int64{-5000: 0, 0: 0, 1: 1, 10: 1, 495: 50, 500: 50, 990: 99} {
		got, err := c.Offset(ctx, topic, 0, base+delta)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%d ms after the first record is offset %d, want %d", delta, got, want)
		}
		if err := wantRecords(ctx, c, topic, 0, got, written[want:]); err != nil {
			return err
		}
	}
	got, err := c.Offset(ctx, topic, 0, base+991)
	if err == nil && got != -1 && got != 100 {
		err = fmt.Errorf("after the last record is offset %d", got)
	}
	return err
}

func earliestLatest(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	if err := wantOffsets(ctx, c, topic, 0, 0); err != nil {
		return err
	}
	if err := c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, numbered(9, 0)); err != nil {
		return err
	}
	return wantOffsets(ctx, c, topic, 0, 9)
}

func seek(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	written := numbered(50, 0)
	if err := c.Produce(ctx, topic, Produce{Codec: "snappy", Acks: -1}, written); err != nil {
		return err
	}
	reader, err := c.Open(ctx, topic, 0, 0)
	if err != nil {
		return err
	}
	defer reader.Close()
	for _, offset := range []int{0, 40, 7, 49, 0, 25} {
		if err := reader.SeekTo(int64(offset)); err != nil {
			return err
		}
		for _, want := range written[offset:min(offset+5, 50)] {
			if err := wantNext(ctx, reader, want); err != nil {
				return fmt.Errorf("after a seek to %d: %w", offset, err)
			}
		}
	}
	return nil
}

// longPoll: a reader at the end waits, and gets each record that is written while it does.
func longPoll(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	reader, err := c.Open(ctx, topic, 0, 0)
	if err != nil {
		return err
	}
	defer reader.Close()
	for i := range 5 {
		type result struct {
			record *Record
			err    error
		}
		read := make(chan result, 1)
		go func() {
			r, err := reader.Read(ctx)
			read <- result{r, err}
		}()
		written := numbered(1, i)
		if err := c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, written); err != nil {
			return err
		}
		got := <-read
		if got.err != nil {
			return got.err
		}
		if err := same(got.record, written[0]); err != nil {
			return err
		}
	}
	return nil
}

// outOfRange: an offset that the log does not have is an error and never another record. Libraries that start over
// somewhere else by themselves are configured not to.
func outOfRange(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	if err := c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, numbered(3, 0)); err != nil {
		return err
	}
	reader, err := c.Open(ctx, topic, 0, 1000)
	if err != nil {
		return wantError(err, ErrOutOfRange)
	}
	defer reader.Close()
	_, err = reader.Read(ctx)
	return wantError(err, ErrOutOfRange)
}

func deletedRecords(ctx context.Context, c Client, topic string) error {
	if err := c.CreateTopic(ctx, topic, 1, nil); err != nil {
		return err
	}
	written := numbered(10, 0)
	if err := c.Produce(ctx, topic, Produce{Codec: "none", Acks: -1}, written); err != nil {
		return err
	}
	if err := c.DeleteRecords(ctx, topic, 0, 6); err != nil {
		return err
	}
	if err := wantOffsets(ctx, c, topic, 6, 10); err != nil {
		return err
	}
	return wantRecords(ctx, c, topic, 0, 6, written[6:])
}

// baseTime is the timestamp of the first record of a check: some time ago, so that it is nobody's default.
var baseTime = time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())

// numbered makes n records with the numbers from first on in their keys, values, offsets and timestamps, which are ten
// milliseconds apart.
func numbered(n, first int) []*Record {
	records := make([]*Record, n)
	for i := range records {
		number := first + i
		records[i] = &Record{
			Offset:    int64(number),
			Timestamp: baseTime.Add(time.Duration(number) * 10 * time.Millisecond),
			Key:       fmt.Appendf(nil, "key-%d", number),
			Value:     fmt.Appendf(nil, "value-%d-%s", number, bytes.Repeat([]byte{'x'}, number%50)),
		}
	}
	return records
}

// noise is n bytes that do not compress well and are the same each time.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func wantPartitions(ctx context.Context, c Client, topic string, want int) error {
	for {
		got, err := c.Partitions(ctx, topic)
		if err != nil || got == want {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the topic has %d partitions, want %d", got, want)
		}
		time.Sleep(pollInterval)
	}
}

func wantConfig(ctx context.Context, c Client, topic, key, want string) error {
	got, err := c.TopicConfig(ctx, topic, key)
	if err == nil && got != want {
		err = fmt.Errorf("%s is %q, want %q", key, got, want)
	}
	return err
}

func wantOffsets(ctx context.Context, c Client, topic string, earliest, latest int64) error {
	first, err := c.Offset(ctx, topic, 0, Earliest)
	if err != nil {
		return err
	}
	end, err := c.Offset(ctx, topic, 0, Latest)
	if err == nil && (first != earliest || end != latest) {
		err = fmt.Errorf("the log goes from %d to %d, want %d to %d", first, end, earliest, latest)
	}
	return err
}

// wantError is nil if err is the wanted one; ErrUnsupported stays itself.
func wantError(err, want error) error {
	switch {
	case errors.Is(err, want):
		return nil
	case errors.Is(err, ErrUnsupported):
		return err
	}
	return fmt.Errorf("got %v, want: %w", err, want)
}

// wantRecords reads from an offset on and compares.
func wantRecords(ctx context.Context, c Client, topic string, partition int32, offset int64, want []*Record) error {
	reader, err := c.Open(ctx, topic, partition, offset)
	if err != nil {
		return err
	}
	defer reader.Close()
	for i, w := range want {
		w.Offset, w.Partition = offset+int64(i), partition
		if err := wantNext(ctx, reader, w); err != nil {
			return fmt.Errorf("partition %d offset %d: %w", partition, w.Offset, err)
		}
	}
	return nil
}

func wantNext(ctx context.Context, reader Reader, want *Record) error {
	got, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	return same(got, want)
}

// same compares all of two records.
func same(got, want *Record) error {
	switch {
	case got.Partition != want.Partition || got.Offset != want.Offset:
		return fmt.Errorf("got partition %d offset %d, want %d and %d", got.Partition, got.Offset, want.Partition, want.Offset)
	case got.Timestamp.UnixMilli() != want.Timestamp.UnixMilli():
		return fmt.Errorf("got the timestamp %v, want %v", got.Timestamp, want.Timestamp)
	case !sameBytes(got.Key, want.Key):
		return fmt.Errorf("got the key %.80q (null: %t), want %.80q (null: %t)", got.Key, got.Key == nil, want.Key, want.Key == nil)
	case !sameBytes(got.Value, want.Value):
		return fmt.Errorf("got the value %.80q (null: %t), want %.80q (null: %t)", got.Value, got.Value == nil, want.Value, want.Value == nil)
	case len(got.Headers) != len(want.Headers):
		return fmt.Errorf("got %d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key || !bytes.Equal(got.Headers[i].Value, h.Value) {
			return fmt.Errorf("got the header %q, want %q", got.Headers[i], h)
		}
	}
	return nil
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
