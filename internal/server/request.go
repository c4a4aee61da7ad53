package server

import (
	"context"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/kproto"
)

// Request is one frame of a connection. It is pooled: once it is completed (and Handle has returned) it must not be used again.
type Request struct {
	kproto.RequestHeader
	Body     []byte // valid until Handle returns
	Conn     *Conn
	Received time.Time
	Local    any // the Handler's own, nil at first

	next    *Request // guarded by Conn.mu while queued, then the writer's
	size    int64    // bytes of the frame, for the credit
	outcome          // guarded by Conn.mu until completed, then the writer's
	begins  int64    // the writer's: where the reply begins in the turn that sends its first byte; -1: that turn is over; else notBegun
	parts   []Part   // empty; the memory of the last reply's list, for Scratch

	// refs are the reader, until Handle returns, and the completion, until the reply left.
	refs atomic.Int32
}

// outcome is what became of a request.
type outcome struct {
	completed bool
	reply     Reply
	abort     string // the reason when the connection is to be closed instead
}

// Reply is a response as bytes and file ranges, in order; the frame's size field is part of the first Bytes.
// Build one with GetBuffer to have its bytes pooled.
type Reply struct {
	Parts []Part
	// Done is called exactly once, when the reply was written whole or will never be written whole.
	// It is never called from inside Reply. It must not wait.
	Done func(Sent)
}

// Sent says how much of a reply the socket took.
type Sent uint8

const (
	SentNothing Sent = iota
	SentPart
	SentAll
)

// Part is either bytes or a file range.
type Part struct {
	Bytes []byte
	Pool  bool // Bytes came from GetBuffer and goes back after the write

	Reader io.ReaderAt // file range when Bytes is nil
	OS     *os.File    // for sendfile; nil: copy through Reader
	Pos    int64
	Len    int64
}

const notBegun = math.MaxInt64

var requests = sync.Pool{New: func() any { return new(Request) }}

func newRequest(c *Conn, size int, received time.Time) *Request {
	r := requests.Get().(*Request)
	r.Conn, r.size, r.Received, r.begins = c, int64(size), received, notBegun
	r.refs.Store(2)
	return r
}

// release drops one of the two references.
func (r *Request) release() {
	if r.refs.Add(-1) > 0 {
		return
	}
	parts := r.parts
	*r = Request{parts: parts}
	requests.Put(r)
}

// Size is how many bytes the frame has, without its size field.
func (r *Request) Size() int64 { return r.size }

// Context is cancelled when the client hangs up or the server stops. Only calls that park look at it.
// It is the connection's: one for all its requests.
func (r *Request) Context() context.Context { return r.Conn.context() }

// Scratch gives an empty list of parts whose memory belongs to the request, so that a reply needs no allocation.
func (r *Request) Scratch() []Part { return r.parts[:0] }

// Reply completes the request. Replies leave in the order of the requests. It never blocks and takes ownership of out.
func (r *Request) Reply(out Reply) { r.Conn.complete(r, outcome{reply: out}) }

// ReplyBytes is Reply with one buffer from GetBuffer.
func (r *Request) ReplyBytes(b []byte) {
	r.Reply(Reply{Parts: append(r.Scratch(), Part{Bytes: b, Pool: true})})
}

// NoReply completes a request that has no answer (acks=0).
func (r *Request) NoReply() { r.Conn.complete(r, outcome{}) }

// Abort closes the connection once the replies before this one are written; reason is logged at debug and counted.
// It should be one of few constant texts.
func (r *Request) Abort(reason string) {
	if reason == "" {
		reason = "unspecified"
	}
	r.Conn.srv.metrics.aborted.inc(reason)
	r.Conn.srv.log.Debug("request aborted", "remote", r.Conn.nc.RemoteAddr(), "api", r.Key, "version", r.Version, "reason", reason)
	r.Conn.complete(r, outcome{abort: reason})
}

// finish ends a completed request: its buffers go back, Done is told, and the request is free.
func (r *Request) finish(sent Sent) {
	parts, done := r.reply.Parts, r.reply.Done
	for i := range parts {
		if parts[i].Pool {
			PutBuffer(parts[i].Bytes)
		}
	}
	clear(parts)
	r.reply = Reply{}
	if cap(parts) <= keptParts {
		r.parts = parts[:0]
	}
	if done != nil {
		done(sent)
	}
	r.release()
}
