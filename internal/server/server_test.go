package server

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestPipelinedEcho(t *testing.T) {
	s := startServer(t, echo, Options{})
	c := s.dial(t)
	var frames [][]byte
	var bodies [][]byte
	for i := range int32(300) {
		bodies = append(bodies, bytes.Repeat([]byte{byte(i)}, rand.IntN(3000)))
		frames = append(frames, request(i, bodies[i]))
	}
	c.send(frames...)
	for i := range int32(300) {
		id, body := c.recv()
		if id != i || !bytes.Equal(body, bodies[i]) {
			t.Fatalf("reply %d has id %d and %d bytes, want %d bytes of request %d", i, id, len(body), len(bodies[i]), i)
		}
	}
}

func TestRepliesKeepOrderWhateverCompletesFirst(t *testing.T) {
	s := startServer(t, handlerFunc(func(r *Request) {
		b := response(r.CorrelationID, nil)
		switch rand.IntN(3) {
		case 0:
			r.ReplyBytes(b)
		default:
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, func() { r.ReplyBytes(b) })
		}
	}), Options{})
	c := s.dial(t)
	go func() {
		for i := range int32(1000) {
			if _, err := c.Write(request(i, make([]byte, i%50))); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	c.wantReplies(0, 999)
}

func TestShutdownLetsRepliesLeave(t *testing.T) {
	parked := make(chan *Request, 1)
	s := startServer(t, handlerFunc(func(r *Request) { parked <- r }), Options{})
	c := s.dial(t)
	c.send(request(1, nil))
	r := wait(t, "the request", parked)
	ctx := r.Context()
	ended := make(chan error)
	go func() { ended <- s.Shutdown(t.Context()) }()
	wait(t, "the context", ctx.Done())
	if context.Cause(ctx) != ErrStopping {
		t.Error("cause is", context.Cause(ctx))
	}
	r.ReplyBytes(response(1, nil))
	c.wantReplies(1, 1)
	c.wantEnd()
	if err := wait(t, "Shutdown", ended); err != nil {
		t.Error(err)
	}
}

func TestShutdownEndsAtItsDeadline(t *testing.T) {
	parked := make(chan *Request, 1)
	closed := make(chan *Conn, 1)
	s := startServer(t, handlerFunc(func(r *Request) { parked <- r }), Options{OnClose: func(c *Conn) { closed <- c }})
	c := s.dial(t)
	c.send(request(1, nil))
	r := wait(t, "the request", parked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); err != context.Canceled {
		t.Error("Shutdown:", err)
	}
	c.wantEnd()
	if len(closed) != 0 {
		t.Error("OnClose before the last request completed")
	}
	done := make(chan Sent, 1)
	r.Reply(Reply{Done: func(sent Sent) { done <- sent }})
	if wait(t, "Done", done) != SentNothing {
		t.Error("sent on a closed connection")
	}
	wait(t, "OnClose", closed)
}

func TestShutdownClosesIdleAndUnfinished(t *testing.T) {
	s := startServer(t, echo, Options{})
	idle, half := s.dial(t), s.dial(t)
	idle.send(request(1, nil))
	idle.wantReplies(1, 1)
	half.send(request(1, make([]byte, 100_000))[:50_000])
	eventually(t, "both are open", func() bool { return counted(s.metrics.open) == 2 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	idle.wantEnd()
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("connected after Shutdown")
	}
	l := newPipeListener()
	if err := s.Serve(l); err != nil {
		t.Error("Serve after Shutdown:", err)
	}
}

func TestConnectionsOfAnAddress(t *testing.T) {
	s := startServer(t, echo, Options{MaxConnsPerIP: 2})
	one, two := s.dial(t), s.dial(t)
	for _, c := range []*testClient{one, two} {
		c.send(request(1, nil))
		c.wantReplies(1, 1)
	}
	s.dial(t).wantEnd()
	if got := counted(s.metrics.refused.WithLabelValues("max.connections.per.ip")); got != 1 {
		t.Error("refused:", got)
	}
	one.Close()
	eventually(t, "room again", func() bool { return counted(s.metrics.open) == 1 })
	three := s.dial(t)
	three.send(request(1, nil))
	three.wantReplies(1, 1)
}

// TestConnectionsWaitForAPlace: what is beyond max.connections is neither refused nor served, until another connection ends. A stop does not wait for it.
func TestConnectionsWaitForAPlace(t *testing.T) {
	s := startServer(t, echo, Options{MaxConns: 2})
	one, two := s.dial(t), s.dial(t)
	for _, c := range []*testClient{one, two} {
		c.send(request(1, nil))
		c.wantReplies(1, 1)
	}
	three := s.dial(t)
	three.send(request(1, nil))
	eventually(t, "a pause", func() bool { return counted(s.metrics.acceptPauses) == 1 })
	two.send(request(2, nil))
	two.wantReplies(2, 2)
	if got := counted(s.metrics.accepted); got != 2 {
		t.Error("accepted:", got)
	}
	one.Close()
	three.wantReplies(1, 1)
	eventually(t, "a second pause", func() bool { return counted(s.metrics.acceptPauses) == 2 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// failing fails to accept a few times, as when descriptors run out.
type failing struct {
	*pipeListener
	left atomic.Int32
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.pipeListener.Accept()
}

func TestAcceptBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failing{pipeListener: newPipeListener()}
		l.left.Store(10)
		start := time.Now()
		s := serveOn(t, l, echo, Options{})
		c := newClient(t, l.dial())
		if took := time.Since(start); took < acceptPauseMax || took > 10*acceptPauseMax {
			t.Error("10 failures took", took)
		}
		go c.send(request(1, nil))
		c.wantReplies(1, 1)
		if got := counted(s.metrics.acceptErrors); got != 10 {
			t.Error("counted:", got)
		}
		_ = s.Shutdown(t.Context())
	})
}

func TestListenPairsLoopback(t *testing.T) {
	ls, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range ls {
		defer l.Close()
		if got, want := l.Addr().(*net.TCPAddr).Port, ls[0].Addr().(*net.TCPAddr).Port; got != want {
			t.Errorf("port %d beside %d", got, want)
		}
	}
	if six, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		six.Close()
		if len(ls) != 2 {
			t.Error("there is IPv6, but no listener on it")
		}
	}
	if again, err := Listen(ls[0].Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error("listened twice:", again, err)
	}
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:x", "256.0.0.1:1"} {
		if ls, err := Listen(bad); err == nil {
			t.Errorf("Listen(%q) = %v", bad, ls)
		}
	}
	any, err := Listen(":0")
	if err != nil || len(any) != 1 {
		t.Fatal(any, err)
	}
	any[0].Close()
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := NewMetrics(reg)
	s := startServer(t, echo, Options{Metrics: m})
	c := s.dial(t)
	c.send(request(1, make([]byte, 10)), request(2, nil))
	c.wantReplies(1, 2)
	eventually(t, "38 bytes in and 26 out", func() bool { return counted(m.in) == 38 && counted(m.out) == 26 }) // the client may hear first
	if got := counted(m.requests.vec.WithLabelValues(kmsg.NameForKey(18))); got != 2 {
		t.Error("requests:", got)
	}
	m.requests.inc(-1)
	m.requests.inc(9999)
	if got := counted(m.requests.vec.WithLabelValues("Unknown")); got != 2 {
		t.Error("unknown requests:", got)
	}
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}

func TestConnNamesItsEnds(t *testing.T) {
	conns := make(chan *Conn, 2)
	s := startServer(t, handlerFunc(func(r *Request) { conns <- r.Conn; r.NoReply() }), Options{SendBuffer: 64 << 10, ReceiveBuffer: 64 << 10})
	a, b := s.dial(t), s.dial(t)
	a.send(request(1, nil))
	b.send(request(1, nil))
	one, two := wait(t, "one", conns), wait(t, "two", conns)
	if one.ID() == two.ID() {
		t.Error("two connections with one id")
	}
	if one.LocalAddr().String() != s.addr {
		t.Error("local address is", one.LocalAddr())
	}
	if got := one.RemoteAddr().String(); got != a.LocalAddr().String() && got != b.LocalAddr().String() {
		t.Error("remote address is", got)
	}
}

func TestDefaults(t *testing.T) {
	o := Options{}.withDefaults()
	if o.MaxFrame != DefaultMaxFrame || o.CreditRequests != DefaultCreditRequests || o.IdleTimeout != DefaultIdleTimeout || o.MemoryBytes <= 0 {
		t.Errorf("%+v", o)
	}
	if o := (Options{MaxConns: 7, IdleTimeout: -1}).withDefaults(); o.MaxConns != 7 || o.IdleTimeout != -1 {
		t.Errorf("%+v", o)
	}
	s := New(echo, Options{IdleTimeout: -1, StallTimeout: time.Minute})
	if s.tick != tickMax || s.ticksOf(-1) < 1<<40 || s.ticksOf(time.Minute) != 61 {
		t.Error(s.tick, s.ticksOf(-1), s.ticksOf(time.Minute))
	}
}
