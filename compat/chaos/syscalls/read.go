package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchBytes is what one Fetch asks for, in bytes.
const fetchBytes = 1 << 20

// bounds gives the first offset and the high watermark by ListOffsets.
func (c *conn) bounds(name string, p int) (start, end int64, code int16, err error) {
	const earliest, latest = -2, -1
	ask := func(timestamp int64) kmsg.Request {
		r := kmsg.NewPtrListOffsetsRequest()
		r.SetVersion(7)
		r.ReplicaID = -1
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = int32(p), timestamp
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
		return r
	}
	replies, err := c.all(ask(earliest), ask(latest))
	if err != nil {
		return 0, 0, 0, err
	}
	var at [2]int64
	for i, r := range replies {
		part := r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		at[i], code = part.Offset, max(code, part.ErrorCode)
	}
	return at[0], at[1], code, nil
}

// fetch reads from one offset.
func (c *conn) fetch(name string, p int, offset int64) (bs []stored, high int64, code int16, err error) {
	r := kmsg.NewPtrFetchRequest()
	r.SetVersion(12)
	r.MaxBytes, r.SessionEpoch = fetchBytes, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = int32(p), offset, fetchBytes
	r.Topics = []kmsg.FetchRequestTopic{{Topic: name, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	reply, err := one[*kmsg.FetchResponse](c, r)
	if err != nil {
		return nil, 0, 0, err
	}
	if reply.ErrorCode != 0 || len(reply.Topics) == 0 {
		return nil, 0, reply.ErrorCode, nil
	}
	got := reply.Topics[0].Partitions[0]
	bs, err = decodeBatches(got.RecordBatches)
	return bs, got.HighWatermark, got.ErrorCode, err
}

// image is a partition as a reader sees it.
type image struct {
	start, end int64
	batches    []stored
}

// read reads a whole partition. A code other than none ends it.
func (c *conn) read(name string, p int) (image, int16, error) {
	start, end, code, err := c.bounds(name, p)
	if err != nil || code != codeNone {
		return image{}, code, err
	}
	im := image{start: start, end: end}
	for at := start; at < end; {
		bs, high, code, err := c.fetch(name, p, at)
		if err != nil || code != codeNone {
			return im, code, err
		}
		if high != end {
			return im, codeNone, fmt.Errorf("high watermark %d, ListOffsets says %d", high, end)
		}
		if len(bs) == 0 {
			return im, codeNone, fmt.Errorf("nothing to be read at offset %d, the end is %d", at, end)
		}
		im.batches = append(im.batches, bs...)
		last := bs[len(bs)-1]
		at = last.offset + int64(len(last.values))
	}
	return im, codeNone, nil
}
