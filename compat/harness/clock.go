package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Setting the wall clock of one process. A Go program reads its clocks from the vDSO, the code that the kernel maps into each process, and not by way of libc, so
// that libfaketime does not reach it; and a time namespace moves the monotonic clock only. But the vDSO of a process can be written to through /proc/PID/mem, and
// then is its own copy. Its clock_gettime becomes a jump to this, which asks the kernel and adds what it is told to if the clock is CLOCK_REALTIME (0):
//
//	mov eax, 228 (clock_gettime); syscall; test edi, edi; jnz end; mov rcx, [rip+6]; add [rsi], rcx; end: ret
//	followed, at slotAt, by the seconds to add
var shiftedClock = []byte{0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 10, 0x48, 0x8b, 0x0d, 6, 0, 0, 0, 0x48, 0x01, 0x0e, 0xc3}

const (
	slotAt    = 24 // of the seconds to add
	shiftSize = slotAt + 8
	jumpSize  = 5
)

// ShiftClock sets the wall clock of the process, and of nothing else, to be ahead of the machine's by whole seconds. Its monotonic clock goes on as before, as it does when an
// administrator sets the clock. It needs Linux on amd64.
func (b *Broker) ShiftClock(ahead time.Duration) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("the clock of a process can be set on amd64 only")
	}
	pid := b.process.Process.Pid
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	from, to, err := vdsoOf(pid)
	if err != nil {
		return err
	}
	stub := to - shiftSize // the last page is not full
	code := make([]byte, to-from)
	if _, err := memory.ReadAt(code, from); err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	if err := b.redirect(memory, code, from, stub); err != nil {
		return err
	}
	_, err = memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second)), stub+slotAt)
	return err
}

// redirect has clock_gettime jump to the stub, unless it does already.
func (b *Broker) redirect(memory *os.File, code []byte, from, stub int64) error {
	last := code[stub-from:]
	if bytes.HasPrefix(last, shiftedClock) {
		return nil
	}
	if !bytes.Equal(last, make([]byte, shiftSize)) {
		return errors.New("the vDSO has no room at its end")
	}
	entry, err := clockGettime(code)
	if err != nil {
		return err
	}
	entry += from
	if err := b.process.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer b.process.Process.Signal(syscall.SIGCONT)
	if _, err := memory.WriteAt(shiftedClock, stub); err != nil {
		return fmt.Errorf("write to the vDSO: %w", err)
	}
	_, err = memory.WriteAt(binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(stub-entry-jumpSize)), entry)
	return err
}

// vdsoOf is where the vDSO of a process begins and ends.
func vdsoOf(pid int) (from, to int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			return from, to, err
		}
	}
	return 0, 0, errors.New("the process has no vDSO")
}

// clockGettime is where the function begins in the vDSO.
func clockGettime(code []byte) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return 0, fmt.Errorf("parse the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return int64(s.Value), nil
		}
	}
	return 0, errors.Join(errors.New("the vDSO has no clock_gettime"), err)
}
