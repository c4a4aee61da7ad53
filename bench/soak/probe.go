package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The probe is a process of its own, so that what it measures is the broker and not the threads that make the load: it writes small records to two
// topics at a fixed pace, whatever becomes of those before (an open loop, so waiting counts), and reads them. For each it prints when it was
// due and after how long it was acknowledged, read or given up, in nanoseconds. One of the topics never rolls; the other does every second or two and
// is kept by size, so that it shows what those wait for whose own partition rolls.

const (
	plainTopic, rollingTopic = "probe", "probe-rolling"
	probeSize                = 100
	// rollingSegment is a second of the probe at 200 records a second, in bytes, as they are without the rest of their batches.
	rollingSegment = 200 * (probeSize + 10)
)

// What a line of the probe is about.
const (
	acked, read               = 'a', 'e' // on the plain topic
	ackedRolling, readRolling = 'A', 'E' // on the rolling one
	refused                   = 'x'
)

// probe runs until its input ends: then whoever started it is gone or wants it to.
func probe(addr string, perSecond int, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	reader, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(plainTopic, rollingTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.ClientID("probe-reader"))
	if err != nil {
		return err
	}
	defer reader.Close()
	w := &sightWriter{out: bufio.NewWriter(out)}
	var writing sync.WaitGroup
	defer writing.Wait()
	for topic, kind := range map[string]byte{plainTopic: acked, rollingTopic: ackedRolling} {
		writer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.ClientID("probe-writer"))
		if err != nil {
			cancel()
			return err
		}
		writing.Go(func() {
			defer writer.Close()
			pace(ctx, writer, perSecond, kind, w)
		})
	}
	for ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			due := time.Unix(0, int64(binary.LittleEndian.Uint64(r.Value)))
			kind := byte(read)
			if r.Topic == rollingTopic {
				kind = readRolling
			}
			w.write(kind, due, time.Since(due))
		})
		w.flush()
	}
	return nil
}

// pace sends a record when it is due, and those that were missed at once.
func pace(ctx context.Context, client *kgo.Client, perSecond int, kind byte, w *sightWriter) {
	for next := time.Now(); ctx.Err() == nil; {
		next = next.Add(time.Second / time.Duration(perSecond))
		due := next
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		value := make([]byte, probeSize)
		binary.LittleEndian.PutUint64(value, uint64(due.UnixNano()))
		client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			what := kind
			if err != nil {
				what = refused
			}
			w.write(what, due, time.Since(due))
		})
	}
}

type sightWriter struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (w *sightWriter) write(kind byte, due time.Time, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, "%c %d %d\n", kind, due.UnixNano(), took)
}

func (w *sightWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Flush() // the reader is gone, and so is the input
}

// sight is what the probe saw of one record.
type sight struct {
	kind byte
	due  time.Time
	took time.Duration
}

// prober is the probe as its parent has it.
type prober struct {
	stop func() error

	mu     sync.Mutex
	sights []sight
}

func startProbe(addr string, perSecond int) (*prober, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, probeArg, addr, fmt.Sprint(perSecond))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = ownGroup // an interrupt from the terminal is for the parent, which ends the probe
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &prober{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(out)
	}()
	p.stop = func() error {
		_ = in.Close() // an error means that it is gone
		<-read
		return cmd.Wait()
	}
	return p, nil
}

func (p *prober) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var kind byte
		var due, took int64
		if _, err := fmt.Sscanf(lines.Text(), "%c %d %d", &kind, &due, &took); err != nil {
			continue // the line in which it was ended
		}
		p.mu.Lock()
		p.sights = append(p.sights, sight{kind, time.Unix(0, due), time.Duration(took)})
		p.mu.Unlock()
	}
}

// all are what was seen so far.
func (p *prober) all() []sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sights[:len(p.sights):len(p.sights)]
}
