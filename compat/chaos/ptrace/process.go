package ptrace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
)

// A traced process is a grandchild: this program starts itself as the tracer, which has no other children to wait for, and the tracer starts this
// program once more as the launcher, which puts the filter in place and becomes the command.
const (
	tracerFace   = "ptrace-tracer"
	launcherFace = "ptrace-launcher"
)

// Init must be the first call of main: in the tracer and in the launcher it does not return.
func Init() {
	if len(os.Args) < 2 {
		return
	}
	var err error
	switch os.Args[1] {
	case tracerFace:
		err = tracerMain(os.Args[2], os.Args[3:])
	case launcherFace:
		err = launch(strings.Split(os.Args[2], ","), os.Args[3:])
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ptrace:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tracerMain prints the process id, then the result as JSON, a line each. SIGUSR1 ends the injection.
func tracerMain(plan string, argv []string) error {
	var p Plan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	var healed atomic.Bool
	heal := make(chan os.Signal, 1)
	signal.Notify(heal, syscall.SIGUSR1)
	go func() {
		<-heal
		healed.Store(true)
	}()
	c := exec.Command("/proc/self/exe", append([]string{launcherFace, strings.Join(p.Calls, ",")}, argv...)...)
	c.Stderr = os.Stderr
	result, err := trace(&p, &healed, c, func(pid int) { fmt.Println(pid) })
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// Process is a command under trace.
type Process struct {
	Pid    int // of the command itself
	tracer *exec.Cmd
	out    io.Reader
	done   chan struct{}
	result Result
	err    error
}

// Start runs argv under the plan. Its standard error goes to stderr.
func Start(p Plan, argv []string, stderr *os.File) (*Process, error) {
	if len(p.Calls) == 0 {
		return nil, errors.New("ptrace: no calls to watch")
	}
	plan, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("ptrace: %w", err)
	}
	c := exec.Command("/proc/self/exe", append([]string{tracerFace, string(plan)}, argv...)...)
	c.Stderr = stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("ptrace: %w", err)
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("ptrace: %w", err)
	}
	t := &Process{tracer: c, out: bufio.NewReader(out), done: make(chan struct{})}
	if _, err := fmt.Fscanln(t.out, &t.Pid); err != nil {
		return nil, errors.Join(fmt.Errorf("ptrace: the tracer did not start: %w", err), c.Wait())
	}
	go t.wait()
	return t, nil
}

func (t *Process) wait() {
	defer close(t.done)
	t.err = json.NewDecoder(t.out).Decode(&t.result)
	if err := t.tracer.Wait(); t.err == nil {
		t.err = err
	}
}

// Done is closed when the command has ended.
func (t *Process) Done() <-chan struct{} { return t.done }

// Result is how the command ended; Done must be closed.
func (t *Process) Result() (Result, error) { return t.result, t.err }

// Heal ends the injection.
func (t *Process) Heal() error { return t.tracer.Process.Signal(syscall.SIGUSR1) }
