package sluice

import (
	"fmt"
	"syscall"
)

// fileShares says what the descriptors that the process may have are for. None of it is a setting: the limit itself is (ulimit -n, LimitNOFILE), and Go raises
// it to the hard limit at the start.
type fileShares struct {
	connections int // of clients; more of them wait to be accepted
	segments    int // files of segments, their indexes among them; more are closed and opened again
}

const (
	// ownFiles are for all else: listeners and the admin port, the lock, the durable offsets, and one or two at a time for each of sixteen syncers, the cleaner,
	// the scrubber and what is just being opened.
	ownFiles = 64
	// Of the rest, connections may take two thirds: to turn a client away is worse than to open a file again.
	connectionShares, allShares = 2, 3
	// maxSegmentFiles is enough where the limit is far higher: to close and to open again costs some 10 us. An open file takes about 1 KB of the kernel's memory.
	maxSegmentFiles = 50_000
	// minFiles is the least with which all parts of the broker work.
	minFiles = 128
)

func shareFiles() (fileShares, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fileShares{}, fmt.Errorf("ask for the limit of open files: %w", err)
	}
	return sharesOf(limit.Cur)
}

func sharesOf(limit uint64) (fileShares, error) {
	if limit < minFiles {
		return fileShares{}, fmt.Errorf("%d files may be open (ulimit -n), and at least %d are needed", limit, minFiles)
	}
	rest := int(min(limit, 1<<30)) - ownFiles
	connections := rest * connectionShares / allShares
	return fileShares{connections, min(rest-connections, maxSegmentFiles)}, nil
}
