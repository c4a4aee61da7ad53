package ptrace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const traceOptions = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESECCOMP

// trace runs the command, which must come to launch, to its end under the plan. Once healed is set, nothing is killed and nothing fails any more.
// started is told the process id. This process must have no other children.
func trace(p *Plan, healed *atomic.Bool, c *exec.Cmd, started func(pid int)) (Result, error) {
	runtime.LockOSThread() // ptrace knows its tracer by thread
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return Result{}, fmt.Errorf("start traced process: %w", err)
	}
	pid := c.Process.Pid
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return Result{}, fmt.Errorf("wait for traced process: %w", err)
	}
	if err := unix.PtraceSetOptions(pid, traceOptions); err != nil {
		return Result{}, fmt.Errorf("ptrace options: %w", err)
	}
	if err := unix.PtraceCont(pid, 0); err != nil {
		return Result{}, fmt.Errorf("ptrace continue: %w", err)
	}
	started(pid)
	t := tracer{plan: p, healed: healed, leader: pid, result: Result{Counts: map[string]int{}}, names: map[uint64]string{}}
	for _, name := range p.Calls {
		for _, nr := range Calls[name] {
			t.names[uint64(nr)] = name
		}
	}
	err := t.loop()
	return t.result, err
}

type tracer struct {
	plan    *Plan
	healed  *atomic.Bool
	leader  int
	names   map[uint64]string
	counted int
	halved  string // the file whose write was carried out in part: the next call on it fails
	result  Result
}

// loop serves stops until no traced thread is left.
func (t *tracer) loop() error {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case ws.Exited() && pid == t.leader:
			t.result.Exit = ws.ExitStatus()
		case ws.Signaled() && pid == t.leader:
			t.result.Exit = 128 + int(ws.Signal())
		case ws.Stopped():
			t.stopped(pid, ws)
		}
	}
}

// stopped lets a stopped thread go on. Errors of ptrace mean that the thread was killed meanwhile; its end is told by wait.
func (t *tracer) stopped(pid int, ws unix.WaitStatus) {
	signal := ws.StopSignal()
	switch {
	case signal == unix.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		t.call(pid)
		signal = 0
	case signal == unix.SIGTRAP, signal == unix.SIGSTOP: // a clone, an exec, the first stop of a new thread
		signal = 0
	}
	_ = unix.PtraceCont(pid, int(signal))
}

// call is before a watched call.
func (t *tracer) call(pid int) {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(pid, &regs) != nil {
		return
	}
	name := t.names[regs.Orig_rax]
	target := t.target(pid, &regs)
	if name == "" || !t.counts(target) {
		return
	}
	if t.halved == target && target != "" {
		t.halved = ""
		t.fail(pid, &regs)
		return
	}
	t.counted++
	t.result.Counts[name]++
	due := t.plan.When > 0 && (t.counted == t.plan.When || t.plan.Sticky && t.counted > t.plan.When)
	if !due || t.healed.Load() {
		return
	}
	t.result.Hits++
	if t.result.Hits == 1 {
		t.result.Hit = fmt.Sprintf("%s number %d on %s", name, t.counted, target)
		t.mark()
	}
	if t.plan.Kill {
		_ = unix.Kill(t.leader, unix.SIGKILL)
		return
	}
	if t.plan.Partial && regs.Orig_rax == unix.SYS_PWRITE64 && shorten(&regs) {
		t.halved = target
		_ = unix.PtraceSetRegs(pid, &regs)
		return
	}
	t.fail(pid, &regs)
}

// blockBytes is the smallest block of common file systems: a disk that fills up cuts a write at the end of one.
const blockBytes = 1024

// shorten has a pwrite64 end at the last end of a block in its first half, or else the first one in it.
func shorten(regs *unix.PtraceRegs) bool {
	pos, n := regs.R10, regs.Rdx
	end := (pos + n/2) / blockBytes * blockBytes
	if end <= pos {
		end = (pos/blockBytes + 1) * blockBytes
	}
	if end >= pos+n {
		return false
	}
	regs.Rdx = end - pos
	return true
}

// fail has the call return the error.
func (t *tracer) fail(pid int, regs *unix.PtraceRegs) {
	regs.Orig_rax = ^uint64(0) // no call: the kernel skips it and returns what stands in rax
	regs.Rax = uint64(-int64(t.plan.Errno))
	_ = unix.PtraceSetRegs(pid, regs)
}

func (t *tracer) mark() {
	if t.plan.Mark == "" {
		return
	}
	if err := os.WriteFile(t.plan.Mark, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "ptrace: mark:", err)
	}
}

func (t *tracer) counts(target string) bool {
	if strings.HasPrefix(target, "socket:") {
		return t.plan.Sockets
	}
	return target == t.plan.Under || strings.HasPrefix(target, t.plan.Under+"/")
}

// target is what the call works on: the path of its file descriptor or of its path argument.
func (t *tracer) target(pid int, r *unix.PtraceRegs) string {
	switch r.Orig_rax {
	case unix.SYS_RENAME, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_MKDIR, unix.SYS_OPEN, unix.SYS_CREAT:
		return readString(pid, r.Rdi)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_OPENAT, unix.SYS_OPENAT2:
		name := readString(pid, r.Rsi)
		if strings.HasPrefix(name, "/") || int32(r.Rdi) == unix.AT_FDCWD {
			return name
		}
		return descriptor(t.leader, r.Rdi) + "/" + name
	}
	return descriptor(t.leader, r.Rdi)
}

func descriptor(pid int, fd uint64) string {
	target, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(int(int32(fd))))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(target, " (deleted)")
}

// readString reads a path argument.
func readString(pid int, addr uint64) string {
	buf := make([]byte, unix.PathMax)
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		return ""
	}
	defer f.Close()
	n, _ := f.ReadAt(buf, int64(addr)) // short at the end of a mapping
	name, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(name)
}
