package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the CPU time that the process has used since it was started.
func (b *Broker) CPUTime() (time.Duration, error) {
	const cpuClock = 2 // CPUCLOCK_SCHED of clock_getcpuclockid(3): of all threads, in nanoseconds
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^b.process.Process.Pid)<<3|cpuClock, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of the broker: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// Memory is how many bytes of memory the process has resident, and had at most.
func (b *Broker) Memory() (now, most int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.process.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	return statusBytes(string(text), "VmRSS"), statusBytes(string(text), "VmHWM"), nil
}

// statusBytes reads a line of /proc/PID/status; 0 if there is none.
func statusBytes(status, name string) int64 {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // 0 if it is no number
			return n << 10
		}
	}
	return 0
}
