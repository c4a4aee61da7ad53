package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	broker "sluice"
	"sluice/internal/vfs"
	"sluice/log"
)

// asCommand has the test binary be the command itself, so that tests can send it signals.
const asCommand = "SLUICE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// stopHang ends a test whose process does not; a stop takes at most sluice.ShutdownTime and what a busy machine adds.
const stopHang = time.Minute

// TestSignalsUnderLoad stops a broker while clients produce as fast as they can. What was acknowledged is there afterwards, at its place and once.
// After one signal the stop is a clean one, and everything is durable; two signals, or SIGQUIT, are as good as a kill.
func TestSignalsUnderLoad(t *testing.T) {
	for name, c := range map[string]struct {
		signals []syscall.Signal
		mode    string
		clean   bool
	}{
		"SIGTERM":          {[]syscall.Signal{syscall.SIGTERM}, "fsync", true},
		"SIGINT, interval": {[]syscall.Signal{syscall.SIGINT}, "interval", true},
		"SIGTERM, os":      {[]syscall.Signal{syscall.SIGTERM}, "os", true},
		"SIGTERM twice":    {[]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, "fsync", false},
		"SIGQUIT":          {[]syscall.Signal{syscall.SIGQUIT}, "fsync", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			p := serveProcess(t, dir, c.mode)
			l := startLoad(t, p.address)
			l.awaitAcks(t, 500)
			begin := time.Now()
			for _, s := range c.signals {
				if err := p.cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			code := p.wait(t)
			t.Logf("stopped after %v, exit code %d", time.Since(begin).Round(time.Millisecond), code)
			l.stop()
			clean := p.clean(t, dir)
			if c.clean && (code != exitOK || !clean) {
				t.Errorf("exit code %d, clean %v: %s", code, clean, p.stderr())
			}
			if clean != (code == exitOK) {
				t.Errorf("exit code %d, and clean %v", code, clean)
			}
			l.check(t, dir)
		})
	}
}

// process is a broker that runs in a process of its own.
type process struct {
	cmd     *exec.Cmd
	address string
	output  string
	ended   chan error
}

func serveProcess(t *testing.T, dir, mode string) *process {
	t.Helper()
	home := t.TempDir()
	ready := filepath.Join(home, "ready")
	p := &process{output: filepath.Join(home, "stderr"), ended: make(chan error, 1)}
	out, err := os.Create(p.output)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(os.Args[0], "serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--ready-file", ready,
		"--set", "sluice.durability="+mode, "--set", "num.partitions=3", "--set", "sluice.ballast.bytes=0")
	p.cmd.Env = append(os.Environ(), asCommand+"=1")
	p.cmd.Stderr = out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() { p.ended <- p.cmd.Wait() }()
	for end := time.Now().Add(stopHang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if line, err := os.ReadFile(ready); err == nil {
			p.address = strings.TrimSpace(string(line))
			return p
		}
	}
	t.Fatalf("the broker is not ready: %s", p.stderr())
	return nil
}

// wait gives the exit code, -1 after the death by a signal.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(stopHang):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		t.Fatalf("the broker still runs: %s", p.stderr())
		return 0
	}
}

func (p *process) stderr() string {
	b, _ := os.ReadFile(p.output)
	return string(b[max(0, len(b)-2000):])
}

// clean tells whether the stop was a clean one. Then nothing may be left to be synced.
func (p *process) clean(t *testing.T, dir string) bool {
	t.Helper()
	r, err := log.Verify(vfs.Disk{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Damaged() {
		t.Errorf("damaged: %+v", r)
	}
	for _, v := range r.Partitions {
		if r.Clean && (v.Durable != v.End || len(v.Findings) > 0) {
			t.Errorf("a clean stop left %s durable up to %d of %d: %+v", v.Directory, v.Durable, v.End, v.Findings)
		}
	}
	return r.Clean
}

// load produces as fast as it can, and knows what was acknowledged.
type load struct {
	stopped chan struct{}
	clients sync.WaitGroup

	mu    sync.Mutex
	acked map[string]ackedAt // by value
}

type ackedAt struct {
	partition int32
	offset    int64
}

func startLoad(t *testing.T, address string) *load {
	t.Helper()
	l := &load{stopped: make(chan struct{}), acked: map[string]ackedAt{}}
	for n := range 4 {
		c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(), kgo.MaxBufferedRecords(500),
			kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0))
		if err != nil {
			t.Fatal(err)
		}
		l.clients.Go(func() { l.produce(n, c) })
	}
	return l
}

func (l *load) produce(n int, c *kgo.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			c.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%d %d", n, i)), l.answer)
		}
	}()
	<-l.stopped
	cancel()
	<-ended
	c.Close()
}

func (l *load) answer(r *kgo.Record, err error) {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.acked[string(r.Value)] = ackedAt{r.Partition, r.Offset}
	}
}

func (l *load) awaitAcks(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(stopHang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		have := len(l.acked)
		l.mu.Unlock()
		if have >= n {
			return
		}
	}
	t.Fatal("nothing is acknowledged")
}

func (l *load) stop() {
	close(l.stopped)
	l.clients.Wait()
}

// check reads everything from a broker started on the directory.
func (l *load) check(t *testing.T, dir string) {
	t.Helper()
	b, err := broker.Start(broker.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	found := readValues(t, b.Addr(), len(l.acked))
	for value, at := range l.acked {
		if places := found[value]; len(places) != 1 || places[0] != at {
			t.Fatalf("record %q was acknowledged at %+v and is at %+v", value, at, places)
		}
	}
	for value, places := range found {
		if len(places) > 1 {
			t.Fatalf("record %q is at %+v", value, places)
		}
	}
	t.Logf("%d records were acknowledged, %d are there", len(l.acked), len(found))
}

// readValues reads the topic to its end: at least n records.
func readValues(t *testing.T, address string, n int) map[string][]ackedAt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stopHang)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	found := map[string][]ackedAt{}
	next, high := map[int32]int64{}, map[int32]int64{}
	for done := false; !done; {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(found), n, err)
		}
		f.EachPartition(func(p kgo.FetchTopicPartition) {
			high[p.Partition] = p.HighWatermark
			for _, r := range p.Records {
				found[string(r.Value)] = append(found[string(r.Value)], ackedAt{r.Partition, r.Offset})
				if r.Offset != next[p.Partition] {
					t.Errorf("partition %d: offset %d after %d", p.Partition, r.Offset, next[p.Partition]-1)
				}
				next[p.Partition] = r.Offset + 1
			}
		})
		done = len(found) >= n
		for p, h := range high {
			done = done && next[p] >= h
		}
	}
	return found
}
