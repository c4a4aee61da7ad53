package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// server is the broker, a process of its own with a data directory of its own.
type server struct {
	cmd    *exec.Cmd
	binary string
	data   string
	logs   string // file
	addr   string
	admin  *http.Client
	ended  chan struct{}
	err    error           // how it ended, after ended
	alive  context.Context // until it has ended: nobody waits for a broker that is gone
}

// ownGroup keeps the terminal's interrupt from the children: they are ended in their turn.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

// build makes the binary in dir.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "sluice")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "sluice/cmd/sluice").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the broker: %w\n%s", err, out)
	}
	return binary, nil
}

// startServer starts the binary on a data directory in dir and waits until it serves.
func startServer(ctx context.Context, binary, dir string, settings map[string]string) (*server, error) {
	s := &server{binary: binary, data: filepath.Join(dir, "data"), logs: filepath.Join(dir, "broker.log"), ended: make(chan struct{})}
	ready := filepath.Join(dir, "ready")
	args := []string{"serve", "--data-dir", s.data, "--listen", "127.0.0.1:0", "--ready-file", ready}
	for key, value := range settings {
		args = append(args, "--set", key+"="+value)
	}
	logs, err := os.Create(s.logs)
	if err != nil {
		return nil, err
	}
	defer logs.Close() //nolint:errcheck // the child has its own descriptor
	s.cmd = exec.Command(binary, args...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = logs, logs, ownGroup
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	alive, dead := context.WithCancel(context.Background())
	s.alive = alive
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
		dead()
	}()
	s.admin = &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(s.data, "admin.sock"))
	}}}
	if err := s.awaitReady(ctx, ready); err != nil {
		s.kill()
		return nil, err
	}
	return s, nil
}

func (s *server) awaitReady(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if text, err := os.ReadFile(file); err == nil {
			s.addr = strings.TrimSpace(string(text))
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the broker ended: %w\n%s", s.err, s.complaints())
		case <-ctx.Done():
			return errors.Join(errors.New("the broker is not ready"), ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends it as an operator does.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.kill()
		return fmt.Errorf("the broker does not stop within %v", patience)
	}
	return s.err
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.ended
}

// complaints are the warnings and errors in its log, the last 20 of them.
func (s *server) complaints() string {
	f, err := os.Open(s.logs)
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // read only
	var lines []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if line := scan.Text(); !strings.Contains(line, "level=INFO") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// verify reads the data directory of a stopped broker with the tool that there is for that.
func (s *server) verify(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, s.binary, "log", "verify", s.data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
