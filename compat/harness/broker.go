// Package harness starts, kills and restarts the binary under test.
package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startTimeout bounds the time from exec to ready, recovery of the data included.
const startTimeout = 60 * time.Second

// stopTimeout is somewhat more than the five seconds in which a broker promises to end after SIGTERM.
const stopTimeout = 10 * time.Second

// Broker is one broker process and, across restarts, its address and data.
type Broker struct {
	Address string // host:port, the same after each restart
	DataDir string

	binary    string
	flags     []string
	readyFile string
	logFile   string
	process   *exec.Cmd
	exited    chan error // gets the exit of process once
}

// Start starts a broker in a directory, which keeps its data, its log and its ready file. Flags are added to `serve`.
func Start(binary, dir string, flags ...string) (*Broker, error) {
	return StartAt(binary, dir, filepath.Join(dir, "data"), flags...)
}

// StartAt is Start with the data elsewhere.
func StartAt(binary, dir, data string, flags ...string) (*Broker, error) {
	b := &Broker{
		Address:   "127.0.0.1:0",
		DataDir:   data,
		binary:    binary,
		flags:     flags,
		readyFile: filepath.Join(dir, "ready"),
		logFile:   filepath.Join(dir, "broker.log"),
	}
	return b, b.Restart()
}

// Restart starts the process again, at the address it had, and returns when it is ready.
func (b *Broker) Restart() error {
	if err := b.Launch(); err != nil {
		return err
	}
	return b.WaitReady()
}

// Launch starts the process and does not wait for it to be ready.
func (b *Broker) Launch() error {
	// A stale ready file must not be taken for the new process's.
	if err := os.Remove(b.readyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, err := os.OpenFile(b.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"serve", "--data-dir", b.DataDir, "--listen", b.Address, "--ready-file", b.readyFile}, b.flags...)
	process := exec.Command(b.binary, args...)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	b.process, b.exited = process, make(chan error, 1)
	go func() { b.exited <- process.Wait() }()
	return nil
}

// WaitReady waits for the ready file and learns the address from it.
func (b *Broker) WaitReady() error {
	deadline := time.After(startTimeout)
	for {
		if text, err := os.ReadFile(b.readyFile); err == nil {
			b.Address = strings.TrimSuffix(string(text), "\n")
			return nil
		}
		select {
		case err := <-b.exited:
			b.exited <- err
			return fmt.Errorf("the broker ended before it was ready: %v\n%s", err, b.LogTail())
		case <-deadline:
			return fmt.Errorf("the broker was not ready after %v\n%s", startTimeout, b.LogTail())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (b *Broker) Kill() error {
	if err := b.process.Process.Kill(); err != nil {
		return fmt.Errorf("kill the broker: %w\n%s", err, b.LogTail())
	}
	<-b.exited
	return nil
}

// Stop ends the process with SIGTERM; it must exit with 0 in time.
func (b *Broker) Stop() error {
	if err := b.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the broker: %w\n%s", err, b.LogTail())
	}
	select {
	case err := <-b.exited:
		if err != nil {
			return fmt.Errorf("the broker stopped: %w\n%s", err, b.LogTail())
		}
		return nil
	case <-time.After(stopTimeout):
		_ = b.Kill()
		return fmt.Errorf("the broker did not stop within %v\n%s", stopTimeout, b.LogTail())
	}
}

// LogTail is the end of what the broker printed.
func (b *Broker) LogTail() string {
	text, err := os.ReadFile(b.logFile)
	if err != nil {
		return err.Error()
	}
	const tail = 4000
	return "the end of its log:\n" + string(text[max(0, len(text)-tail):])
}
