// Package ptrace kills a process at its N-th system call of a kind, or has that call fail. It does what strace's -e inject does, with two
// differences that a multithreaded program needs: a call is counted over all threads (strace counts each thread apart), and what a call works on
// (a file below a directory, a socket) can decide whether it counts.
package ptrace

import "syscall"

// Plan is what to do to the process.
type Plan struct {
	Calls   []string // keys of Calls, watched
	Under   string   // count calls on files at or below this directory
	Sockets bool     // count calls on sockets too
	When    int      // the N-th counted call, from 1, is the one; 0: count only
	Errno   syscall.Errno
	Sticky  bool   // every call from the N-th on
	Partial bool   // a pwrite64 that is to fail writes some whole blocks first, if it reaches over the end of one; the call for the rest fails
	Mark    string // a file that is made when the first call fails, before the process learns of it; "": none
	Kill    bool   // SIGKILL before the call is carried out; otherwise it fails with Errno
}

// Result is how the process ended and what was counted.
type Result struct {
	Exit   int            // status, or 128 + signal
	Counts map[string]int // per call
	Hit    string         // the first call that was killed or failed: name, number and what it worked on
	Hits   int
}
