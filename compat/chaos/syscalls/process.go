package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/compat/chaos/ptrace"
)

const (
	// startTime is how long a broker may take until it is ready, on a busy machine.
	startTime = time.Minute
	// stopTime is how long it may take after SIGTERM: the 5 s it promises, and what a busy machine adds.
	stopTime = 30 * time.Second
)

var errExited = errors.New("the broker ended before it was ready")

// place is the home of one run: the data directory, the ready file, what the brokers printed.
type place struct{ dir string }

func (p place) data() string   { return filepath.Join(p.dir, "data") }
func (p place) ready() string  { return filepath.Join(p.dir, "ready") }
func (p place) mark() string   { return filepath.Join(p.dir, "failed") }
func (p place) stderr() string { return filepath.Join(p.dir, "stderr") }

// process is a running broker.
type process struct {
	addr   string
	pid    int
	done   <-chan struct{}
	traced *ptrace.Process // nil: not under trace
	code   func() int      // exit status, once done
}

// start runs a broker, under trace if there is a plan, and waits until it is ready. With errExited the process is given too.
func (p place) start(bin string, plan *ptrace.Plan) (*process, error) {
	stderr, err := os.OpenFile(p.stderr(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	if err := os.Remove(p.ready()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	argv := []string{bin, "serve", "--data-dir", p.data(), "--listen", "127.0.0.1:0", "--ready-file", p.ready()}
	b, err := spawn(argv, plan, stderr)
	if err != nil {
		return nil, err
	}
	return b, b.awaitReady(p.ready())
}

func spawn(argv []string, plan *ptrace.Plan, stderr *os.File) (*process, error) {
	if plan != nil {
		t, err := ptrace.Start(*plan, argv, stderr)
		if err != nil {
			return nil, err
		}
		return &process{pid: t.Pid, done: t.Done(), traced: t, code: func() int {
			r, _ := t.Result()
			return r.Exit
		}}, nil
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Stderr = stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Wait() // the state says it all
	}()
	return &process{pid: c.Process.Pid, done: done, code: func() int { return c.ProcessState.ExitCode() }}, nil
}

func (b *process) awaitReady(file string) error {
	deadline := time.Now().Add(startTime)
	for time.Now().Before(deadline) {
		if line, err := os.ReadFile(file); err == nil {
			b.addr = strings.TrimSpace(string(line))
			return nil
		}
		select {
		case <-b.done:
			return errExited
		case <-time.After(time.Millisecond):
		}
	}
	b.kill()
	return fmt.Errorf("the broker was not ready after %v", startTime)
}

// kill is kill -9.
func (b *process) kill() {
	_ = syscall.Kill(b.pid, syscall.SIGKILL) // it may have ended
	<-b.done
}

// dump has a broker that hangs print its goroutines and end.
func (b *process) dump() {
	_ = syscall.Kill(b.pid, syscall.SIGQUIT)
	if !b.ended() {
		b.kill()
	}
}

// stop is SIGTERM. It reports false, after a kill, if the broker did not end in time.
func (b *process) stop() bool {
	_ = syscall.Kill(b.pid, syscall.SIGTERM)
	select {
	case <-b.done:
		return true
	case <-time.After(stopTime):
		b.kill()
		return false
	}
}

// ended tells whether the broker ends within the time of a kill that is under way.
func (b *process) ended() bool {
	select {
	case <-b.done:
		return true
	case <-time.After(stopTime):
		return false
	}
}

// crashed gives the last lines of a panic that the brokers of this place printed, or "".
func (p place) crashed() string {
	out, err := os.ReadFile(p.stderr())
	if err != nil {
		return ""
	}
	for _, mark := range []string{"panic:", "fatal error:", "DATA RACE"} {
		if i := bytes.Index(out, []byte(mark)); i >= 0 {
			return string(out[i:min(len(out), i+1500)])
		}
	}
	return ""
}

// said gives the end of what the brokers printed.
func (p place) said() string {
	out, _ := os.ReadFile(p.stderr())
	return string(out[max(0, len(out)-600):])
}

// tear does what a kill in the middle of a write can do: it leaves a piece of a batch at the end of every log.
func (p place) tear(rng *rand.Rand) error {
	logs, err := filepath.Glob(filepath.Join(p.data(), "*-*", "*.log"))
	if err != nil {
		return err
	}
	last := map[string]string{}
	for _, name := range logs { // sorted
		last[filepath.Dir(name)] = name
	}
	for _, name := range slices.Sorted(maps.Values(last)) {
		torn := make([]byte, 1+rng.IntN(200))
		for i := range torn {
			torn[i] = byte(rng.Uint32())
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		if _, err := f.Write(torn); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// verify runs sluice log verify. It needs no running broker.
func (p place) verify(bin string) error {
	out, err := exec.Command(bin, "log", "verify", p.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("sluice log verify: %w: %s", err, out[:min(len(out), 1000)])
	}
	return nil
}

// verifies tells whether the binary has the command log verify.
func verifies(bin string) bool { return exec.Command(bin, "log", "verify", "--help").Run() == nil }
