package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// event is a line of a reader (package reader).
type event struct {
	at        time.Time
	what      string // read, committed, assigned, revoked
	topic     string
	partition int32
	offset    int64 // of read and committed
	size      int   // of the value
}

// process is a reader in a process of its own.
type process struct {
	in    io.WriteCloser
	kill  func()        // and waits until it is gone
	ended chan struct{} // it is gone

	mu     sync.Mutex
	events []event
}

// readers are the programs, by client and protocol.
var readers = map[string][]string{
	"franz-go":          {os.Args[0], "reader"},
	"franz-go-consumer": {os.Args[0], "reader"},
	"python":            {"/usr/bin/python3", "confluent-kafka-python/reader.py"},
	"kafkajs":           {"node", "kafkajs/reader.js"},
	"java":              {"java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "java/classes:java/lib/*", "Reader"},
	"java-consumer":     {"java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "java/classes:java/lib/*", "Reader"},
}

// start begins a reader of a topic or a pattern. It is killed at the end of the trial.
func (t *trial) start(client, group, topic string, settings ...string) (*process, error) {
	protocol := "classic"
	if strings.HasSuffix(client, "-consumer") {
		protocol = "consumer"
	}
	argv := append(append(append([]string(nil), readers[client]...), t.broker.Address, group, topic, protocol), settings...)
	command := exec.Command(argv[0], argv[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	lines, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start a reader: %w", err)
	}
	p := &process{in: in, ended: make(chan struct{})}
	p.kill = sync.OnceFunc(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-p.ended
	})
	t.running.Go(func() {
		defer close(p.ended)
		p.take(lines)
		_ = command.Wait() // it was killed, or is told by what it did not read
	})
	context.AfterFunc(t.ctx, p.kill)
	return p, nil
}

func (p *process) take(lines io.Reader) {
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		e := event{at: time.Now()}
		// A line may be shorter than this, and one that is not understood is none.
		if n, _ := fmt.Sscan(scan.Text(), &e.what, &e.topic, &e.partition, &e.offset, &e.size); n >= 3 {
			p.mu.Lock()
			p.events = append(p.events, e)
			p.mu.Unlock()
		}
	}
}

// tell gives the reader a command.
func (p *process) tell(command string, args ...any) error {
	_, err := fmt.Fprintln(p.in, append([]any{command}, args...)...)
	return err
}

// leave has the reader end as it should.
func (p *process) leave() error { return p.in.Close() }

// ordered are all events until now.
func (p *process) ordered() []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// all are the events of a kind until now.
func (p *process) all(what string) (list []event) {
	for _, e := range p.ordered() {
		if e.what == what {
			list = append(list, e)
		}
	}
	return list
}

// reads counts the records that came in a time, of all partitions (-1) or one.
func (p *process) reads(partition int32, begin, end time.Time) (n int) {
	for _, e := range p.all("read") {
		if !e.at.Before(begin) && e.at.Before(end) && (partition < 0 || e.partition == partition) {
			n++
		}
	}
	return n
}

// has waits until the reader has told of something so often.
func (p *process) has(ctx context.Context, what string, n int) error {
	for {
		have := len(p.all(what))
		if have >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%q was told %d times, want %d", what, have, n)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// until waits until the reader has read as many records, and tells when it has read the last of them.
func (p *process) until(ctx context.Context, n int) (at time.Time, err error) {
	if err := p.has(ctx, "read", n); err != nil {
		return at, err
	}
	return p.all("read")[n-1].at, nil
}

// gapless tells what a reader skipped, and what it read twice though it was committed before the reader's own first record.
func gapless(first int64, lists ...[]event) error {
	type place struct {
		topic     string
		partition int32
	}
	seen := map[place]map[int64]bool{}
	last := map[place]int64{}
	for _, list := range lists {
		for _, e := range list {
			k := place{e.topic, e.partition}
			if seen[k] == nil {
				seen[k] = map[int64]bool{}
			}
			seen[k][e.offset] = true
			last[k] = max(last[k], e.offset)
		}
	}
	var errs []error
	for k, end := range last {
		for o := first; o <= end; o++ {
			if !seen[k][o] {
				errs = append(errs, fmt.Errorf("offset %d of %s-%d was not read", o, k.topic, k.partition))
			}
		}
	}
	return errors.Join(errs...)
}
