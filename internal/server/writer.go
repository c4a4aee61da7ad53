package server

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// writer writes a run of complete requests. Whoever has the baton has one; it is pooled, since idle connections
// have none.
//
// It works in turns: gather pieces of as many replies as possible, up to a file range that goes by sendfile;
// send them in one system call, and the range in another; finish the requests that are out.
type writer struct {
	conn *Conn

	first *Request // taken from the queue and not finished, linked by next
	next  *Request // of these, the first that is not gathered whole; nil: all are
	part  int      // of next, the first part that is not gathered whole

	failed error // of gathering next; what was gathered before is sent first

	copies [][]byte // pooled copies of file ranges, gathered
	copied int      // their bytes

	finished     int // requests finished whose credit is not repaid
	finishedSize int64

	out outbound
}

// outbound is what one turn sends: bytes, then perhaps a range of a file.
type outbound struct {
	conn   *Conn
	pieces [maxPieces][]byte
	bufs   [][]byte // of pieces, what is not sent
	file   *os.File
	pos    int64
	left   int64 // of file
	queued int64 // bytes of all pieces
	gone   int64 // of them, what the socket took
	wait   bool  // wait until the socket takes more; otherwise errWouldBlock
	raw    rawSend
}

var errWouldBlock = errors.New("socket full")

var writers = sync.Pool{New: func() any {
	w := new(writer)
	w.out.raw.init(&w.out)
	w.out.bufs = w.out.pieces[:0]
	return w
}}

func newWriter(c *Conn) *writer {
	w := writers.Get().(*writer)
	w.conn, w.out.conn = c, c
	return w
}

func (w *writer) free() {
	w.conn, w.out.conn = nil, nil
	writers.Put(w)
}

// flush writes the replies that are ready, on the reader: while it handles frames nobody else starts to.
func (c *Conn) flush() {
	c.mu.Lock()
	c.busy = false
	take := !c.writing && !c.phase.over() && c.head != nil && c.head.completed
	if take {
		c.writing = true
	}
	c.mu.Unlock()
	if take {
		c.write(newWriter(c), false)
	}
}

// write writes replies as long as the one at the head is ready. The caller holds the baton. Without wait it passes
// the baton to a goroutine when the socket is full: the reader must go on reading, since a client may
// not read before it has sent all it wants.
func (c *Conn) write(w *writer, wait bool) {
	w.out.wait = wait
	for w.first != nil || c.take(w) {
		err := w.send()
		if err == errWouldBlock {
			go c.write(w, true)
			return
		}
		if err != nil {
			c.close(err)
			w.giveUp()
		}
	}
	w.free()
}

// take gives the writer the complete requests at the head of the queue. When there are none the baton is free.
func (c *Conn) take(w *writer) bool {
	c.mu.Lock()
	c.repay(w.finished, w.finishedSize)
	w.finished, w.finishedSize = 0, 0
	w.first = c.popRun()
	w.next, w.part = w.first, 0
	if w.first != nil {
		c.mu.Unlock()
		return true
	}
	abort := c.popAbort()
	c.writing = abort != nil // until the queue is abandoned, nobody may write what is behind the abort
	drained := c.drained()
	cause := c.cause
	c.mu.Unlock()
	switch {
	case abort != nil:
		c.linger()
		c.discard(abort)
		c.mu.Lock()
		c.writing = false
		c.mu.Unlock()
	case drained:
		c.close(cause)
	default:
		c.touch()
	}
	c.settle()
	return false
}

// popRun takes the complete requests at the head of the queue, up to an abort. The caller holds mu.
func (c *Conn) popRun() (first *Request) {
	var last *Request
	for r := c.head; r != nil && r.completed && r.abort == ""; r = r.next {
		last = r
	}
	if last == nil {
		return nil
	}
	first, c.head = c.head, last.next
	if c.head == nil {
		c.tail = nil
	}
	last.next = nil
	return first
}

// popAbort takes the head of the queue when it is an abort. The caller holds mu.
func (c *Conn) popAbort() *Request {
	r := c.head
	if r == nil || r.abort == "" {
		return nil
	}
	if c.head = r.next; c.head == nil {
		c.tail = nil
	}
	r.next = nil
	return r
}

// send writes the requests that the writer has. After errWouldBlock it goes on where it stopped.
func (w *writer) send() error {
	for {
		if err := w.conn.t.send(&w.out); err != nil {
			return err
		}
		w.finishGathered()
		if w.first == nil || w.failed != nil {
			return w.failed
		}
		w.failed = w.gather()
	}
}

// gather collects pieces for one turn.
func (w *writer) gather() error {
	sendfile := w.conn.t.sendfiles()
	for ; w.next != nil; w.next, w.part = w.next.next, 0 {
		parts := w.next.reply.Parts
		if w.part == 0 {
			w.next.begins = w.out.queued
		}
		for ; w.part < len(parts); w.part++ {
			p := &parts[w.part]
			if len(w.out.bufs) == maxPieces {
				return nil
			}
			switch {
			case p.Bytes != nil:
				w.out.add(p.Bytes)
			case p.Len <= 0:
			case sendfile && p.OS != nil && p.Len >= sendfileMin:
				w.out.file, w.out.pos, w.out.left = p.OS, p.Pos, p.Len
				w.part++
				return nil
			default:
				if err := w.copyRange(p); err != nil || p.Len > 0 {
					return err
				}
			}
		}
	}
	return nil
}

// copyRange gathers as much of a file range as the turn has room for, and takes it off the part.
func (w *writer) copyRange(p *Part) error {
	n := int(min(p.Len, int64(copyStep-w.copied)))
	if n == 0 {
		return nil
	}
	buf := GetBuffer(n)[:n]
	w.copies = append(w.copies, buf)
	var err error
	var got int
	if p.Reader != nil {
		got, err = p.Reader.ReadAt(buf, p.Pos)
	} else {
		got, err = p.OS.ReadAt(buf, p.Pos)
	}
	if got < n {
		return fmt.Errorf("%w: %d of %d bytes at %d: %w", errShortFile, got, n, p.Pos, err)
	}
	w.out.add(buf)
	w.copied += n
	p.Pos += int64(n)
	p.Len -= int64(n)
	w.conn.srv.metrics.copied.Add(float64(n))
	return nil
}

// finishGathered ends the requests that are out whole, after their turn was sent.
func (w *writer) finishGathered() {
	w.reset()
	for w.first != w.next {
		w.finish(SentAll)
	}
	if w.next != nil && w.part > 0 {
		w.next.begins = -1
	}
}

// giveUp ends all the requests that the writer has.
func (w *writer) giveUp() {
	gone := w.out.gone
	w.reset()
	for w.first != nil {
		sent := SentPart
		if w.first.begins >= gone {
			sent = SentNothing
		}
		w.finish(sent)
	}
	w.next, w.failed = nil, nil
}

func (w *writer) finish(sent Sent) {
	r := w.first
	w.first, r.next = r.next, nil
	w.finished++
	w.finishedSize += r.size
	r.finish(sent)
}

// reset forgets what was gathered.
func (w *writer) reset() {
	for i, b := range w.copies {
		PutBuffer(b)
		w.copies[i] = nil
	}
	w.copies, w.copied = w.copies[:0], 0
	w.out.reset()
}

func (o *outbound) add(b []byte) {
	if len(b) > 0 {
		o.bufs = append(o.bufs, b)
		o.queued += int64(len(b))
	}
}

// sent takes n bytes off.
func (o *outbound) sent(n int) {
	o.gone += int64(n)
	for n > 0 {
		if n < len(o.bufs[0]) {
			o.bufs[0] = o.bufs[0][n:]
			return
		}
		n -= len(o.bufs[0])
		o.bufs[0] = nil
		o.bufs = o.bufs[1:]
	}
}

func (o *outbound) reset() {
	for i := range o.bufs {
		o.bufs[i] = nil
	}
	o.bufs = o.pieces[:0]
	o.file, o.left, o.queued, o.gone = nil, 0, 0, 0
}
