package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// served is a broker in a process of its own, whose CPU time is its own, too.
type served struct {
	addr    string
	process *exec.Cmd
	dir     string
}

// serve starts a broker with a fresh directory. close ends it.
func serve(ctx context.Context, binary string, settings ...string) (*served, error) {
	dir, err := os.MkdirTemp("", "sluice-dispatch-")
	if err != nil {
		return nil, err
	}
	ready := filepath.Join(dir, "ready")
	args := []string{"serve", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--ready-file", ready}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	b := &served{process: exec.CommandContext(ctx, binary, args...), dir: dir}
	var said bytes.Buffer
	b.process.Stderr = &said
	if err := b.process.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if addr, err := os.ReadFile(ready); err == nil {
			b.addr = string(bytes.TrimSpace(addr))
			return b, nil
		}
	}
	b.close()
	return nil, fmt.Errorf("%s does not become ready: %s", binary, said.String())
}

func (b *served) close() {
	_ = b.process.Process.Kill()
	_ = b.process.Wait() // it was killed
	_ = os.RemoveAll(b.dir)
}

// cpu is the CPU time that the process has used.
func (b *served) cpu() (time.Duration, error) {
	const cpuClock = 2 // CPUCLOCK_SCHED of clock_getcpuclockid(3): of all threads, in nanoseconds
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^b.process.Process.Pid)<<3|cpuClock, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", b.process.Process.Pid, err)
	}
	return time.Duration(t.Nano()), nil
}
