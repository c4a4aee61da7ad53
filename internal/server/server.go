// Package server owns connections: it listens, cuts frames, keeps the order of replies, limits what a
// connection may hold, and notices hang-ups. Of an API it knows no more than its header.
//
// A connection is one goroutine, its reader, which holds no buffer while nothing arrives:
//
//	reader:  wait for bytes -> cut frames -> Handler.Handle, one after the other -> write what is ready
//	writer:  a goroutine that exists only while a reply that became ready elsewhere, or that the socket
//	         would not take at once, is being written
//
// Requests stand in a queue in the order they came. Reply, NoReply and Abort mark one as complete, from any
// goroutine; whoever holds the connection's baton (Conn.writing) takes the complete ones from the head of
// the queue and writes them, as many as there are in one system call.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/kproto"
)

// Handler is the broker.
type Handler interface {
	// Handle runs stage one of a request: whatever must happen in the order of the requests on the
	// connection. It runs on the connection's reader and must not wait. Exactly one of r.Reply, r.NoReply
	// and r.Abort must be called, now or later, from any goroutine; afterwards r belongs to the server again
	// and may be touched only until Handle returns. r.Body is valid only until Handle returns.
	Handle(r *Request)
}

// Server serves connections of any number of listeners.
type Server struct {
	handler Handler
	opts    Options
	log     *slog.Logger
	metrics *Metrics
	memory  *budget

	// Tests replace these.
	parse     func(h *kproto.RequestHeader, frame []byte) (body []byte, err error)
	transport func(*Conn) transport

	// ticks is the clock of the watchdog; its period is tick.
	ticks atomic.Int64
	tick  time.Duration

	lastID  atomic.Uint64
	stopped chan struct{}  // closed by Shutdown
	wg      sync.WaitGroup // accept loops and connections

	quit     chan struct{} // closed when wg is done: the watchdog ends last
	quitOnce sync.Once
	watchdog sync.WaitGroup

	mu        sync.Mutex // guards what follows
	place     *sync.Cond // told when a connection ends, and at the stop
	stopping  bool
	watching  bool
	listeners map[net.Listener]struct{}
	conns     map[*Conn]struct{}
	perIP     map[netip.Addr]int
}

// New makes a server; zero options mean the defaults of limits.go.
func New(h Handler, o Options) *Server {
	o = o.withDefaults()
	s := &Server{
		handler:   h,
		opts:      o,
		log:       o.Logger,
		metrics:   o.Metrics,
		memory:    newBudget(o.MemoryBytes, o.Metrics.memory),
		parse:     (*kproto.RequestHeader).Parse,
		transport: newTransport,
		tick:      tickFor(o),
		stopped:   make(chan struct{}),
		quit:      make(chan struct{}),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*Conn]struct{}{},
		perIP:     map[netip.Addr]int{},
	}
	s.place = sync.NewCond(&s.mu)
	return s
}

// Serve accepts on l until Shutdown, and then returns nil; it may be called for several listeners. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if !s.begin(l) {
		return l.Close()
	}
	defer s.wg.Done()
	defer l.Close()
	var pause time.Duration
	for s.awaitPlace() {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.admit(nc)
		case s.isStopping():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// Mostly EMFILE or ENFILE: the client waits in the backlog until a descriptor is free.
			pause = min(max(2*pause, acceptPauseMin), acceptPauseMax)
			s.metrics.acceptErrors.Inc()
			s.log.Warn("accept failed", "addr", l.Addr(), "err", err, "retry in", pause)
			if !s.sleep(pause) {
				return nil
			}
		}
	}
	return nil
}

// awaitPlace waits until there may be one more connection, as Kafka does at max.connections: clients wait in the listener's backlog meanwhile. It is false when the
// server stops. Several listeners may each be one beyond the limit.
func (s *Server) awaitPlace() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= s.opts.MaxConns && !s.stopping {
		s.metrics.acceptPauses.Inc()
		s.log.Warn("as many connections as there may be: others wait to be accepted", "limit", s.opts.MaxConns)
	}
	for len(s.conns) >= s.opts.MaxConns && !s.stopping {
		s.place.Wait()
	}
	return !s.stopping
}

// begin counts a listener in and starts the watchdog with the first one.
func (s *Server) begin(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.listeners[l] = struct{}{}
	s.wg.Add(1)
	if !s.watching {
		s.watching = true
		s.watchdog.Go(s.watch)
	}
	return true
}

// sleep is false when the server stops before d has passed.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stopped:
		return false
	}
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// admit starts a connection, or closes it when its address has too many.
func (s *Server) admit(nc net.Conn) {
	s.tune(nc)
	c := newConn(s, nc)
	if refused := s.register(c); refused != "" {
		s.metrics.refused.WithLabelValues(refused).Inc()
		s.log.Debug("connection refused", "remote", nc.RemoteAddr(), "reason", refused)
		nc.Close()
		return
	}
	go c.serve()
}

// tune sets what Go does not set by itself (it does set TCP_NODELAY).
func (s *Server) tune(nc net.Conn) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	if s.opts.SendBuffer > 0 {
		_ = tcp.SetWriteBuffer(s.opts.SendBuffer)
	}
	if s.opts.ReceiveBuffer > 0 {
		_ = tcp.SetReadBuffer(s.opts.ReceiveBuffer)
	}
}

// register says why the connection is refused, or "".
func (s *Server) register(c *Conn) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return "stopping"
	case c.ip.IsValid() && s.perIP[c.ip] >= s.opts.MaxConnsPerIP:
		return "max.connections.per.ip"
	}
	s.conns[c] = struct{}{}
	if c.ip.IsValid() {
		s.perIP[c.ip]++
	}
	s.wg.Add(1)
	s.metrics.accepted.Inc()
	s.metrics.open.Inc()
	return ""
}

// forget ends what register began.
func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	if c.ip.IsValid() {
		if s.perIP[c.ip]--; s.perIP[c.ip] == 0 {
			delete(s.perIP, c.ip)
		}
	}
	s.place.Signal()
	s.mu.Unlock()
	s.metrics.open.Dec()
	s.wg.Done()
}

// Shutdown stops accepting and reading, lets requests in flight finish and their replies leave until ctx ends,
// then closes everything. Requests' contexts are cancelled at the start, with ErrStopping as cause, so that
// what is parked may answer at once: it would otherwise hold back the replies behind it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	for _, c := range s.all(nil) {
		c.stopReading(errStopping)
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		s.quitOnce.Do(func() { close(s.quit) })
		s.watchdog.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.all(nil) {
		c.close(errStopping)
	}
	<-done
	return ctx.Err()
}

// stop closes the listeners; no connection comes after it.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.stopping = true
		close(s.stopped)
		s.place.Broadcast()
	}
	for l := range s.listeners {
		l.Close()
	}
	clear(s.listeners)
}

// all appends the connections.
func (s *Server) all(to []*Conn) []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		to = append(to, c)
	}
	return to
}
