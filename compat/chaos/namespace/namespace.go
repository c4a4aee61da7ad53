// Package namespace keeps the mounts of a test from the rest of the machine.
package namespace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside is set in the environment of the process that has the namespace.
const inside = "CHAOS_INSIDE"

// Enter returns in a process that has a mount namespace of its own, so that no mount is left behind: it runs this program again and ends as that does.
// An error says that there can be none here; it takes root.
func Enter() error {
	if os.Getenv(inside) == "" {
		return again()
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	return nil
}

func again() error {
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), inside+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig looks at the thread
	if err := c.Start(); err != nil {
		return fmt.Errorf("cannot make a mount namespace: %w", err)
	}
	err := c.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(max(1, exit.ExitCode())) // -1 after the death by a signal
	}
	if err != nil {
		return err
	}
	os.Exit(0)
	return nil
}
