package server

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newTransport gives a TCP connection its socket.
func newTransport(c *Conn) transport {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		if rc, err := tcp.SyscallConn(); err == nil {
			t := &raw{conn: c, rc: rc}
			t.readable = t.tryRead
			return t
		}
	}
	return &plain{conn: c, nc: c.nc}
}

// raw works on the socket of a TCP connection: it holds no buffer while nothing comes, writes without waiting
// where asked to, and sends files by sendfile.
type raw struct {
	conn     *Conn
	rc       syscall.RawConn
	readable func(fd uintptr) bool // tryRead, made once

	// The read in progress. When idle, buf is taken once there is something to read.
	idle bool
	buf  []byte
	n    int
	err  error
}

func (t *raw) sendfiles() bool { return true }

func (t *raw) hungUp(begun bool) (gone bool) {
	err := t.rc.Control(func(fd uintptr) {
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if _, err := unix.Poll(look, 0); err != nil {
			return
		}
		switch events := look[0].Revents; {
		case events&(unix.POLLERR|unix.POLLHUP) != 0:
			gone = true
		case events&unix.POLLRDHUP != 0 && !begun:
			unread, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
			gone = err == nil && unread == 0
		}
	})
	return gone || err != nil
}

func (t *raw) wait() ([]byte, error) {
	t.idle = true
	_, err := t.do()
	buf := t.buf
	t.buf, t.idle = nil, false
	return buf, err
}

func (t *raw) read(p []byte) (int, error) {
	t.buf = p
	n, err := t.do()
	t.buf = nil
	return n, err
}

func (t *raw) do() (int, error) {
	t.n, t.err = 0, nil
	if err := t.rc.Read(t.readable); err != nil {
		return 0, err
	}
	return t.n, t.err
}

// tryRead is false when there is nothing to read yet.
func (t *raw) tryRead(fd uintptr) bool {
	buf := t.buf
	if t.idle {
		buf = t.conn.in.take()
	}
	n, err := retry(func() (int, error) { return syscall.Read(int(fd), buf) })
	switch {
	case n > 0:
		t.n = n
		if t.idle {
			t.buf = buf[:n]
		}
		return true
	case t.idle:
		t.conn.in.give(buf)
	}
	switch err {
	case nil:
		t.err = io.EOF
	case syscall.EAGAIN:
		return false
	default:
		t.err = fmt.Errorf("read: %w", err)
	}
	return true
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// rawSend is what a send on a socket needs beside its bytes.
type rawSend struct {
	writable func(fd uintptr) bool // trySend, made once
	iov      [maxPieces]unix.Iovec
	msg      unix.Msghdr
	err      error
	waited   bool
}

func (s *rawSend) init(o *outbound) { s.writable = o.trySend }

func (t *raw) send(o *outbound) error {
	if len(o.bufs) == 0 && o.left == 0 {
		return nil
	}
	o.raw.err = nil
	err := t.rc.Write(o.raw.writable)
	if o.raw.waited {
		t.conn.writeSince.Store(0)
		o.raw.waited = false
	}
	if err != nil {
		return err
	}
	return o.raw.err
}

// trySend is false when the socket takes no more and the sender waits.
func (o *outbound) trySend(fd uintptr) bool {
	if told := o.conn.onWrite.Load(); told != nil {
		began := time.Now()
		defer func() { (*told)(time.Since(began)) }()
	}
	err := o.sendBytes(int(fd))
	if err == nil {
		err = o.sendFile(int(fd))
	}
	switch err {
	case syscall.EAGAIN:
		if o.wait {
			o.raw.waited = true
			o.conn.writeSince.Store(o.conn.srv.now())
			return false
		}
		o.raw.err = errWouldBlock
	default:
		o.raw.err = err
	}
	return true
}

// sendBytes sends the pieces. When a file follows, the kernel waits for it rather than send a small packet.
func (o *outbound) sendBytes(fd int) error {
	flags := unix.MSG_NOSIGNAL
	if o.left > 0 {
		flags |= unix.MSG_MORE
	}
	for len(o.bufs) > 0 {
		n, err := retry(func() (int, error) { return o.sendmsg(fd, flags) })
		if err != nil {
			return wrapUnlessFull("write", err)
		}
		o.sent(n)
		o.conn.srv.metrics.out.Add(float64(n))
	}
	return nil
}

func (o *outbound) sendmsg(fd, flags int) (int, error) {
	s := &o.raw
	for i, b := range o.bufs {
		s.iov[i].Base = unsafe.SliceData(b)
		s.iov[i].SetLen(len(b))
	}
	s.msg.Iov = &s.iov[0]
	s.msg.SetIovlen(len(o.bufs))
	n, _, errno := syscall.Syscall(syscall.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&s.msg)), uintptr(flags))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// sendFile sends the range at its own offset: the file's is shared by all who read it.
func (o *outbound) sendFile(fd int) error {
	for o.left > 0 {
		n, err := retry(func() (int, error) {
			return syscall.Sendfile(fd, int(o.file.Fd()), &o.pos, int(min(o.left, 1<<30)))
		})
		if err != nil {
			return wrapUnlessFull("sendfile", err)
		}
		if n == 0 {
			return fmt.Errorf("%w: %d bytes missing at %d of %s", errShortFile, o.left, o.pos, o.file.Name())
		}
		o.left -= int64(n)
		o.conn.srv.metrics.out.Add(float64(n))
		o.conn.srv.metrics.sendfile.Add(float64(n))
	}
	return nil
}

func wrapUnlessFull(verb string, err error) error {
	if err == syscall.EAGAIN {
		return err
	}
	return fmt.Errorf("%s: %w", verb, err)
}
