package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

const (
	fetchVersion = 12 // the last that names topics
	fetchBytes   = 1 << 20
)

// rawReader fetches a partition and looks at no more than the batches' headers, so that a broker is kept busy by little.
type rawReader struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte
	id   int32
}

func dialRaw(addr string) (*rawReader, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &rawReader{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// read reads a topic's only partition from the beginning, again and again, until it has had so many bytes.
func (r *rawReader) read(topic string, bytes int64) error {
	for next := int64(0); bytes > 0; {
		n, after, end, err := r.fetch(topic, next)
		if err != nil {
			return err
		}
		bytes -= n
		if next = after; next >= end {
			next = 0
		}
	}
	return nil
}

// fetch gives the bytes of records that came, the offset behind them, and where the partition ends.
func (r *rawReader) fetch(topic string, from int64) (n, next, end int64, err error) {
	if err := r.send(topic, from); err != nil {
		return 0, 0, 0, err
	}
	resp := kmsg.FetchResponse{Version: fetchVersion}
	if err := r.receive(&resp); err != nil {
		return 0, 0, 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, 0, 0, fmt.Errorf("the answer has %d topics, error %d", len(resp.Topics), resp.ErrorCode)
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, 0, 0, fmt.Errorf("offset %d: error %d", from, p.ErrorCode)
	}
	next = from
	for left := p.RecordBatches; len(left) > 0; {
		var b kproto.Batch
		if b, left, err = kproto.SplitBatch(left); err != nil {
			return 0, 0, 0, err
		}
		next = b.NextOffset()
	}
	return int64(len(p.RecordBatches)), next, p.HighWatermark, nil
}

func (r *rawReader) send(topic string, from int64) error {
	req := kmsg.FetchRequest{Version: fetchVersion, ReplicaID: -1, MaxWaitMillis: 500, MinBytes: 1, MaxBytes: fetchBytes, SessionEpoch: -1,
		Topics: []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{
			{CurrentLeaderEpoch: -1, FetchOffset: from, LastFetchedEpoch: -1, LogStartOffset: -1, PartitionMaxBytes: fetchBytes}}}}}
	r.id++
	_, err := r.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, &req, r.id))
	return err
}

func (r *rawReader) receive(resp *kmsg.FetchResponse) error {
	var size [4]byte
	if _, err := io.ReadFull(r.in, size[:]); err != nil {
		return err
	}
	if n := int(binary.BigEndian.Uint32(size[:])); n > cap(r.body) {
		r.body = make([]byte, n)
	} else {
		r.body = r.body[:n]
	}
	if _, err := io.ReadFull(r.in, r.body); err != nil {
		return err
	}
	const header = 5 // correlation id, no tags
	if len(r.body) < header {
		return errors.New("an answer without a header")
	}
	return resp.ReadFrom(r.body[header:])
}
