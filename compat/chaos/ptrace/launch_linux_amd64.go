package ptrace

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls are the groups that can be watched, by the name of their main call. Kernel interfaces that do the same count together.
var Calls = map[string][]uint32{
	"write":     {unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDMSG, unix.SYS_SENDTO, unix.SYS_SENDFILE},
	"pwrite64":  {unix.SYS_PWRITE64, unix.SYS_PWRITEV, unix.SYS_PWRITEV2},
	"fsync":     {unix.SYS_FSYNC},
	"fdatasync": {unix.SYS_FDATASYNC},
	"rename":    {unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2},
	"unlink":    {unix.SYS_UNLINK, unix.SYS_UNLINKAT, unix.SYS_RMDIR},
	"ftruncate": {unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE},
	"mkdir":     {unix.SYS_MKDIR, unix.SYS_MKDIRAT},
	"open":      {unix.SYS_OPEN, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_CREAT},
}

// launch replaces this process by argv, with a seccomp filter that stops each watched call for the tracer. It returns only on failure.
func launch(calls, argv []string) error {
	runtime.LockOSThread() // the filter belongs to the thread that calls execve
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl no_new_privs: %w", err)
	}
	filter, err := filterFor(calls)
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return fmt.Errorf("exec %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}

// filterFor is the BPF program: watched calls go to the tracer, all else to the kernel. A call through another
// instruction set (32-bit) is not watched; Go programs make none.
func filterFor(calls []string) ([]unix.SockFilter, error) {
	const offsetOfNr = 0 // in struct seccomp_data
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetOfNr}}
	for _, name := range calls {
		numbers, ok := Calls[name]
		if !ok {
			return nil, fmt.Errorf("no such call: %s", name)
		}
		for _, nr := range numbers {
			filter = append(filter,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: nr},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
		}
	}
	return append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}), nil
}
