package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"sluice/compat/checks"
)

// source is what realinput needs of a client to read.
type source interface {
	Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error)
	Open(ctx context.Context, topic string, partition int32, offset int64) (checks.Reader, error)
}

// kcatSource reads with kcat.
type kcatSource struct{ address string }

func (k kcatSource) Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	out, err := exec.CommandContext(ctx, "kcat", "-Q", "-b", k.address, "-t", fmt.Sprintf("%s:%d:%d", topic, partition, at)).Output()
	if err != nil {
		return 0, fmt.Errorf("kcat -Q: %w", err)
	}
	var offset int64
	if _, err := fmt.Sscanf(string(out), topic+" ["+fmt.Sprint(partition)+"] offset %d", &offset); err != nil {
		return 0, fmt.Errorf("kcat -Q printed %q", out)
	}
	return offset, nil
}

// Open reads to the end that the partition has then: kcat flushes its output only when it exits.
func (k kcatSource) Open(ctx context.Context, topic string, partition int32, offset int64) (checks.Reader, error) {
	ctx, cancel := context.WithCancel(ctx)
	kcat := exec.CommandContext(ctx, "kcat", "-C", "-q", "-e", "-b", k.address, "-t", topic, "-p", fmt.Sprint(partition), "-o", fmt.Sprint(offset),
		"-X", fmt.Sprint("message.max.bytes=", largestRecord), "-f", `%o %T %K %S\n%k%s\n`)
	stdout, err := kcat.StdoutPipe()
	if err == nil {
		err = kcat.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &kcatReader{bufio.NewReaderSize(stdout, 1<<20), partition, func() { cancel(); _ = kcat.Wait() }}, nil
}

type kcatReader struct {
	out       *bufio.Reader
	partition int32
	close     func()
}

func (r *kcatReader) Read(context.Context) (*checks.Record, error) {
	var offset, millis int64
	var keySize, valueSize int
	header, err := r.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("read from kcat: %w", err)
	}
	if _, err := fmt.Sscanf(header, "%d %d %d %d\n", &offset, &millis, &keySize, &valueSize); err != nil {
		return nil, fmt.Errorf("kcat printed %q: %w", header, err)
	}
	keySize, valueSize = max(0, keySize), max(0, valueSize) // -1 is null, which nobody wrote
	body := make([]byte, keySize+valueSize+1)
	if _, err := io.ReadFull(r.out, body); err != nil {
		return nil, fmt.Errorf("read from kcat: %w", err)
	}
	return &checks.Record{
		Partition: r.partition,
		Offset:    offset,
		Timestamp: time.UnixMilli(millis),
		Key:       body[:keySize],
		Value:     body[keySize : keySize+valueSize],
	}, nil
}

func (r *kcatReader) SeekTo(int64) error { return checks.ErrUnsupported }

func (r *kcatReader) Close() { r.close() }
