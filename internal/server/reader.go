package server

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"time"
)

// serve is the reader's goroutine.
func (c *Conn) serve() {
	err := c.read()
	c.in.release()
	c.readerGone(err)
}

// read handles frames until the connection ends, and says why it does. Replies that became ready on the way are
// written when no complete frame is left, so that pipelined requests share a read and their replies a write.
func (c *Conn) read() error {
	for !c.halted.Load() {
		if c.mutedUntil.Load() != nil {
			c.flush()
			if err := c.awaitMute(); err != nil {
				return err
			}
			continue
		}
		frame, length, err := c.in.next(c.srv.opts.MaxFrame)
		switch {
		case err != nil:
			c.refuse(err)
			err = nil
		case frame == nil:
			c.flush()
			err = c.fill(length)
		case c.handle(frame):
			c.flush()
			err = c.awaitCredit()
		}
		if err != nil {
			return err
		}
	}
	c.flush()
	return c.halt()
}

// handle runs the handler for one frame and says whether the connection has used up its credit.
func (c *Conn) handle(frame []byte) (overdrawn bool) {
	c.notStalled()
	r := newRequest(c, len(frame), c.now)
	body, err := c.srv.parse(&c.header, frame)
	overdrawn = c.enqueue(r)
	if err != nil {
		c.srv.log.Debug("bad request header", "remote", c.nc.RemoteAddr(), "err", err)
		r.Abort("bad request header")
	} else {
		r.RequestHeader, r.Body = c.header, body
		c.srv.metrics.requests.inc(r.Key)
		c.call(r)
	}
	r.release()
	c.in.handled(frame)
	return overdrawn
}

// call is the edge at which a handler's panic ends: it costs the connection, not the process.
func (c *Conn) call(r *Request) {
	defer c.rescue(r)
	c.srv.handler.Handle(r)
}

func (c *Conn) rescue(r *Request) {
	p := recover()
	if p == nil {
		return
	}
	c.srv.metrics.panics.Inc()
	c.srv.log.Error("panic in a request handler", "panic", p, "api", r.Key, "version", r.Version,
		"remote", c.nc.RemoteAddr(), "stack", string(debug.Stack()))
	c.mu.Lock()
	completed := r.completed
	c.mu.Unlock()
	if completed {
		c.close(errAborted)
	} else {
		r.Abort("handler panic")
	}
}

// refuse ends the connection over bytes that are no frame, after the replies before.
func (c *Conn) refuse(err error) {
	c.notStalled()
	c.srv.log.Debug("bad frame", "remote", c.nc.RemoteAddr(), "err", err)
	r := newRequest(c, 0, c.now)
	c.enqueue(r)
	r.Abort(errFrameLength.Error())
	r.release()
}

// notStalled stops the clock of the frame in progress: it is complete, or it is not the client who is awaited.
func (c *Conn) notStalled() {
	if c.frameSince.Load() != 0 {
		c.frameSince.Store(0)
	}
}

// fill waits for more bytes: of a frame of the given length (0: not known) when one was begun.
func (c *Conn) fill(length int) error {
	var n int
	var err error
	if c.in.empty() {
		n, err = c.fillIdle()
	} else {
		n, err = c.fillFrame(length)
	}
	if n > 0 {
		c.now = time.Now()
		c.srv.metrics.in.Add(float64(n))
	}
	switch {
	case errors.Is(err, io.EOF):
		return errHungUp
	case errors.Is(err, os.ErrDeadlineExceeded): // set by stopReading only
		return errStopping
	}
	return err
}

// fillIdle waits without a buffer.
func (c *Conn) fillIdle() (n int, err error) {
	c.idleSince.Store(c.srv.now())
	c.in.buf, err = c.t.wait()
	c.idleSince.Store(0)
	c.in.adapt()
	return len(c.in.buf), err
}

func (c *Conn) fillFrame(length int) (n int, err error) {
	if c.frameSince.Load() == 0 {
		c.frameSince.Store(c.srv.now())
	}
	if room := c.in.room(length); room != nil {
		n, err = c.t.read(room)
		c.in.buf = c.in.buf[:len(c.in.buf)+n]
		c.in.adapt()
		return n, err
	}
	if err := c.makeRoom(length); err != nil {
		return 0, err
	}
	room := c.in.large[len(c.in.large):min(cap(c.in.large), length)]
	n, err = c.t.read(room)
	c.in.large = c.in.large[:len(c.in.large)+n]
	if len(c.in.large) >= c.in.renewAt {
		c.in.renewAt += growStep
		c.frameSince.Store(c.srv.now())
	}
	return n, err
}

// makeRoom sees to it that a large frame has a buffer with space in it, no larger than twice what came.
func (c *Conn) makeRoom(length int) error {
	in := &c.in
	switch {
	case in.largeLen == 0:
		first := min(length, growStep)
		c.notStalled()
		if err := c.reserve(classSize(first), false); err != nil {
			return err
		}
		c.frameSince.Store(c.srv.now())
		in.begin(length, first)
	case len(in.large) == cap(in.large):
		size := min(length, 2*cap(in.large))
		before := in.reserved
		if err := c.reserve(classSize(size), true); err != nil {
			return err
		}
		in.grow(size)
		in.reserved -= before
		c.srv.memory.release(before)
	}
	return nil
}

// reserve waits for memory.
func (c *Conn) reserve(n int, more bool) error {
	if !c.srv.memory.try(int64(n)) {
		if err := c.srv.memory.acquire(c.context(), int64(n), more); err != nil {
			return err
		}
	}
	c.in.reserved += int64(n)
	return nil
}

// awaitMute waits until the mute has passed. A client that hangs up meanwhile is noticed, unless it has sent something that is still to be read:
// that is handled first, as if there were no mute.
func (c *Conn) awaitMute() error {
	c.notStalled()
	until := c.mutedUntil.Load()
	timer := time.NewTimer(min(time.Until(*until), muteLook))
	defer timer.Stop()
	for ctx := c.context(); time.Until(*until) > 0; timer.Reset(min(time.Until(*until), muteLook)) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if c.t.hungUp(!c.in.empty()) {
			return errHungUp
		}
	}
	c.mutedUntil.CompareAndSwap(until, nil)
	return nil
}

// awaitCredit waits until half of the connection's credit is free.
func (c *Conn) awaitCredit() error {
	c.mu.Lock()
	if c.solvent() {
		c.mu.Unlock()
		return nil
	}
	resume := make(chan struct{})
	c.resume = resume
	c.mu.Unlock()
	ctx := c.context()
	select {
	case <-resume:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// halt is what the reader does when no further request is to be handled. On an aborted connection it throws away
// what still comes, until the client or the watchdog ends it.
func (c *Conn) halt() error {
	c.notStalled()
	c.in.drop()
	var err error
	for {
		c.mu.Lock()
		phase, cause := c.phase, c.cause
		c.mu.Unlock()
		switch {
		case phase == phaseDraining || phase == phaseClosed:
			return cause
		case phase == phaseOpen && errors.Is(err, io.EOF):
			return errHungUp // the replies before the abort are still to be written
		case err != nil:
			return err
		}
		var buf []byte
		if buf, err = c.t.wait(); buf != nil {
			c.in.give(buf)
		}
	}
}
