//go:build unix && !linux

package vfs

import "golang.org/x/sys/unix"

func datasync(fd int) error { return unix.Fsync(fd) }
