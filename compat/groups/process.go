package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// leaveTimeout bounds the time from SIGTERM to the end of a member.
const leaveTimeout = 30 * time.Second

// process is a member that runs.
type process struct {
	name    string
	command *exec.Cmd
	errors  bytes.Buffer  // its standard error; read after it has ended
	ended   chan struct{} // closed when it has ended and its last line was taken
}

// startMember starts a member, whose lines go into the ledger.
func startMember(name string, argv []string, l *ledger) (*process, error) {
	p := &process{name: name, command: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.command.Stderr = &p.errors
	// Members of their own process group: whatever a member starts ends with it.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lines, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start member %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		p.take(lines, l)
		_ = p.command.Wait() // how it ended does not matter: what it did is in the ledger
	}()
	return p, nil
}

// take reads whole lines; one that a kill has cut off was never said.
func (p *process) take(lines io.Reader, l *ledger) {
	r := bufio.NewReader(lines)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		l.line(p.name, line)
	}
}

// line takes what a member printed.
func (l *ledger) line(who, line string) {
	var partition int32
	var offset int64
	var value string
	if n, _ := fmt.Sscanf(line, "read %d %d %s\n", &partition, &offset, &value); n == 3 {
		l.read(who, partition, offset, value)
	} else if n, _ := fmt.Sscanf(line, "committed %d %d\n", &partition, &offset); n == 2 {
		l.commit(who, partition, offset)
	} else {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.faults.strange = append(l.faults.strange, fmt.Sprintf("%s printed %q", who, line))
	}
}

// kill ends it with SIGKILL, and waits until all that it said is in the ledger.
func (p *process) kill() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// leave ends it with SIGTERM, on which it leaves the group.
func (p *process) leave() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(leaveTimeout):
		p.kill()
		return fmt.Errorf("member %s did not leave within %v", p.name, leaveTimeout)
	}
}

// alive tells whether the process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
