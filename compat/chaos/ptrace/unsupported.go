//go:build !(linux && amd64)

package ptrace

import (
	"errors"
	"os/exec"
	"sync/atomic"
)

var errUnsupported = errors.New("system calls are traced on linux/amd64 only")

func launch(_, _ []string) error { return errUnsupported }

func trace(*Plan, *atomic.Bool, *exec.Cmd, func(int)) (Result, error) {
	return Result{}, errUnsupported
}
