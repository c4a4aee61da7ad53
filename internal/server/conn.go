package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/kproto"
)

// Why a connection ends. The texts are label values.
var (
	errHungUp     = errors.New("hung up") // the client ended its side
	errStopping   = errors.New("server stopping")
	errAborted    = errors.New("aborted")
	errIdle       = errors.New("idle")
	errStalled    = errors.New("frame stalled")
	errSlowReader = errors.New("write stalled")
	errShortFile  = errors.New("file shorter than promised")
)

// ErrStopping is the cause of a request's context when the server stops; a hang-up has another.
var ErrStopping = errStopping

// Conn is one client connection.
type Conn struct {
	// Session is the broker's own state of the connection; only the Handler touches it, on the reader.
	Session any

	id  uint64
	srv *Server
	nc  net.Conn
	ip  netip.Addr // not valid without an IP below
	t   transport

	in  input     // the reader's
	now time.Time // the reader's: when the last bytes came

	header kproto.RequestHeader // the reader's: of the last request, whose client id the next one mostly shares

	mutedUntil atomic.Pointer[time.Time] // nil: nothing is muted. With its monotonic reading, so that setting the wall clock changes nothing.
	onWrite    atomic.Pointer[func(time.Duration)]
	halted     atomic.Bool // no further request is to be handled: phase is not open, or a request was aborted

	// Since when, in ticks, something is waited for; 0: it is not. The watchdog reads them.
	idleSince, frameSince, writeSince, lingerSince atomic.Int64

	mu      sync.Mutex // guards what follows
	phase   phase
	reading bool // the reader's goroutine exists
	// busy says that the reader is handling frames and will look for ready replies by itself.
	busy bool
	// writing is the baton: somebody is writing the replies, in order.
	writing      bool
	head, tail   *Request      // in order of arrival; completed ones leave from the head
	inflight     int           // requests received and not yet answered
	inflightSize int64         // their frames' bytes
	resume       chan struct{} // not nil: the reader waits here for credit
	forgotten    bool
	ended        bool  // OnClose was called
	cause        error // why the phase is not open any more
	ctx          context.Context
	cancel       context.CancelCauseFunc
}

type phase uint8

const (
	phaseOpen      phase = iota
	phaseDraining        // nothing more is handled; closed when the last reply is written
	phaseLingering       // an abort was reached: nothing more is written, and what still comes is thrown away
	phaseClosed          // the socket is closed
)

// over says that what is completed now is thrown away.
func (p phase) over() bool { return p >= phaseLingering }

func newConn(s *Server, nc net.Conn) *Conn {
	c := &Conn{id: s.lastID.Add(1), srv: s, nc: nc, reading: true}
	c.in = input{memory: s.memory, ahead: readAheadMin}
	c.ip = ipOf(nc.RemoteAddr())
	c.t = s.transport(c)
	return c
}

func ipOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// ID is unique within the server.
func (c *Conn) ID() uint64           { return c.id }
func (c *Conn) LocalAddr() net.Addr  { return c.nc.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Mute stops reading from the connection for d (client quotas; KIP-219). A shorter mute does not end a longer one.
func (c *Conn) Mute(d time.Duration) {
	until := time.Now().Add(d)
	for {
		old := c.mutedUntil.Load()
		if old != nil && !old.Before(until) || c.mutedUntil.CompareAndSwap(old, &until) {
			return
		}
	}
}

// MutedFor is how long the connection will not be read, 0 if it is.
func (c *Conn) MutedFor() time.Duration {
	until := c.mutedUntil.Load()
	if until == nil {
		return 0
	}
	return max(0, time.Until(*until))
}

// OnWrite has fn told how long each system call took that wrote to the connection, without the waiting for a client that does not read (KIP-124). fn must not wait.
func (c *Conn) OnWrite(fn func(time.Duration)) { c.onWrite.Store(&fn) }

// context makes the connection's context when the first one asks for it, so that ordinary requests pay nothing.
func (c *Conn) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancelCause(context.Background())
		if c.cause != nil {
			c.cancel(c.cause)
		}
	}
	return c.ctx
}

// enqueue puts a request at the end of the queue, and says whether the connection's credit is used up.
func (c *Conn) enqueue(r *Request) (overdrawn bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = true
	c.inflight++
	c.inflightSize += r.size
	if !c.phase.over() {
		if c.tail == nil {
			c.head = r
		} else {
			c.tail.next = r
		}
		c.tail = r
	}
	return c.inflight >= c.srv.opts.CreditRequests || c.inflightSize >= c.srv.opts.CreditBytes
}

// complete notes the outcome of a request, and has it written when it is at the head and nobody else will.
func (c *Conn) complete(r *Request, o outcome) {
	o.completed = true
	c.mu.Lock()
	if r.completed {
		c.mu.Unlock()
		c.srv.log.Error("a request was completed twice", "api", r.Key, "version", r.Version)
		return
	}
	r.outcome = o
	if o.abort != "" {
		c.halted.Store(true)
	}
	over := c.phase.over()
	take := !over && c.head == r && !c.busy && !c.writing
	if take {
		c.writing = true
	}
	c.mu.Unlock()
	switch {
	case over: // in a goroutine, since the caller may hold locks that Done takes
		go c.discard(r)
	case take:
		go c.write(newWriter(c), true)
	}
}

// discard ends a completed request whose reply cannot leave any more.
func (c *Conn) discard(r *Request) {
	size := r.size
	r.finish(SentNothing)
	c.mu.Lock()
	c.repay(1, size)
	c.mu.Unlock()
	c.settle()
}

// repay gives credit back and lets the reader go on at half of it. The caller holds mu.
func (c *Conn) repay(n int, size int64) {
	c.inflight -= n
	c.inflightSize -= size
	if c.resume != nil && c.solvent() {
		close(c.resume)
		c.resume = nil
	}
}

func (c *Conn) solvent() bool {
	return c.inflight <= c.srv.opts.CreditRequests/2 && c.inflightSize <= c.srv.opts.CreditBytes/2
}

// stopReading lets the requests in flight end and their replies leave, and then closes: the client ended its side,
// or the server stops. It wakes the reader.
func (c *Conn) stopReading(cause error) {
	c.mu.Lock()
	if c.phase == phaseOpen {
		c.endPhase(phaseDraining, cause)
	}
	c.mu.Unlock()
	_ = c.nc.SetReadDeadline(longAgo)
}

// endPhase leaves the phase for a later one. The caller holds mu.
func (c *Conn) endPhase(next phase, cause error) {
	c.phase = next
	c.halted.Store(true)
	if c.cause == nil {
		c.cause = cause
	}
	if c.cancel != nil {
		c.cancel(cause)
	}
}

// longAgo as a deadline ends a read at once.
var longAgo = time.Unix(1, 0)

// readerGone is the end of the reader's goroutine.
func (c *Conn) readerGone(cause error) {
	if errors.Is(cause, errHungUp) || errors.Is(cause, errStopping) {
		c.stopReading(cause)
	} else {
		c.close(cause)
	}
	c.mu.Lock()
	c.reading = false
	done := c.drained() || c.phase == phaseLingering
	c.mu.Unlock()
	if done {
		c.close(cause)
	}
	c.settle()
}

// touch renews the time until the connection counts as idle: a reply left.
func (c *Conn) touch() {
	if since := c.idleSince.Load(); since != 0 {
		c.idleSince.CompareAndSwap(since, c.srv.now())
	}
}

// drained says that nothing is left to do on a connection that is no longer read. The caller holds mu.
func (c *Conn) drained() bool {
	return c.phase == phaseDraining && !c.reading && !c.writing && c.inflight == 0
}

// linger ends an aborted connection: the client sees the end of the stream after the replies it got. What it
// still sends is thrown away for a moment, by the reader, because closing a socket with unread bytes resets it,
// and the client could lose the replies before the abort.
func (c *Conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	c.mu.Lock()
	if !ok || !c.reading || c.phase != phaseOpen {
		c.mu.Unlock()
		c.close(errAborted)
		return
	}
	c.endPhase(phaseLingering, errAborted)
	done := c.abandon()
	c.mu.Unlock()
	c.lingerSince.Store(c.srv.now())
	_ = half.CloseWrite()
	c.discardAll(done)
}

// close ends the connection at once. Requests that are completed are thrown away now, others when they complete.
func (c *Conn) close(cause error) {
	c.mu.Lock()
	if c.phase == phaseClosed {
		c.mu.Unlock()
		return
	}
	c.endPhase(phaseClosed, cause)
	cause = c.cause
	done := c.abandon()
	c.mu.Unlock()

	c.nc.Close()
	c.srv.metrics.closed.WithLabelValues(reasonOf(cause)).Inc()
	c.srv.log.Debug("connection closed", "remote", c.nc.RemoteAddr(), "reason", cause)
	c.discardAll(done)
	c.settle()
}

func (c *Conn) discardAll(done *Request) {
	for done != nil {
		r := done
		done, r.next = r.next, nil
		c.discard(r)
	}
}

// abandon empties the queue and gives its completed requests as a list. The caller holds mu.
func (c *Conn) abandon() (done *Request) {
	for r := c.head; r != nil; {
		next := r.next
		r.next = nil
		if r.completed {
			r.next, done = done, r
		}
		r = next
	}
	c.head, c.tail = nil, nil
	return done
}

// settle looks whether the connection's goroutines have ended, and its last request.
func (c *Conn) settle() {
	c.mu.Lock()
	quiet := c.phase == phaseClosed && !c.reading && !c.writing
	ended := quiet && c.inflight == 0 && !c.ended
	c.ended = c.ended || ended
	forgotten := quiet && !c.forgotten
	c.forgotten = c.forgotten || forgotten
	c.mu.Unlock()
	if ended {
		c.srv.opts.OnClose(c)
	}
	if forgotten {
		c.srv.forget(c)
	}
}

// reasonOf is the label value for the end of a connection.
func reasonOf(cause error) string {
	for _, known := range []error{errHungUp, errStopping, errAborted, errIdle, errStalled, errSlowReader, errShortFile} {
		if errors.Is(cause, known) {
			return known.Error()
		}
	}
	return "network"
}
