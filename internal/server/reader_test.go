package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBadFramesCloseTheConnectionAfterEarlierReplies(t *testing.T) {
	length := func(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	for name, bad := range map[string][]byte{
		"length 0":           length(0),
		"negative length":    length(-1),
		"too long":           length(1<<20 + 1),
		"cut header":         append(length(3), 1, 2, 3),
		"HTTP":               []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"TLS":                {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc},
		"SSH":                []byte("SSH-2.0-OpenSSH_9.9\r\n"),
		"garbage afterwards": append(length(-5), bytes.Repeat([]byte{0xAA}, 300<<10)...),
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, echo, Options{MaxFrame: 1 << 20})
			c := s.dial(t)
			c.send(request(1, []byte("one")), request(2, nil), bad)
			c.wantReplies(1, 2)
			c.wantEnd()
			probe := s.dial(t)
			probe.send(request(3, nil))
			probe.wantReplies(3, 3)
		})
	}
}

func TestHints(t *testing.T) {
	for b, want := range map[string]string{"GET ": "HTTP", "\x16\x03\x01\x00": "TLS", "SSH-": "SSH", "\xff\xff\xff\xff": ""} {
		if got := hint([]byte(b)); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("hint(%q) = %q, want %q in it", b, got, want)
		}
	}
}

// Frames of all sizes around the buffers' borders arrive whole, however the network cuts them.
func TestFrameSizes(t *testing.T) {
	s := startServer(t, echo, Options{MaxFrame: 8 << 20})
	sizes := []int{0, 1, 499, 500, 501, readAheadMin - 15, readAheadMin - 14, readAheadMin - 13, 16_000, largeFrame, readAheadMax - 14,
		readAheadMax, growStep - 10, growStep - 9, 2*growStep - 10, 5 << 20}
	for _, step := range []int{7, 4096, 1 << 30} {
		c := s.dial(t)
		for i, size := range sizes {
			if step == 7 && size > 1<<17 {
				continue
			}
			body := make([]byte, size)
			_, _ = rand.Read(body)
			frame := request(int32(i), body)
			go func() {
				for part := range slices.Chunk(frame, step) {
					if _, err := c.Write(part); err != nil {
						return
					}
				}
			}()
			if id, got := c.recv(); id != int32(i) || !bytes.Equal(got, body) {
				t.Fatalf("frame of %d bytes in steps of %d came back as %d, %d bytes", size, step, id, len(got))
			}
		}
	}
}

func TestBodyIsGoneAfterHandle(t *testing.T) {
	frames := slices.Concat(request(1, []byte("one")), request(2, []byte("two")), []byte{0, 0})
	in := input{memory: newBudget(1, NewMetrics(nil).memory), buf: append(GetBuffer(100), frames...)}
	var bodies [][]byte
	for range 2 {
		frame, length, err := in.next(1000)
		if err != nil || len(frame) != length || cap(frame) != length {
			t.Fatalf("frame of %d bytes, capacity %d, length %d, error %v", len(frame), cap(frame), length, err)
		}
		bodies = append(bodies, frame)
		in.handled(frame)
	}
	for _, b := range bodies {
		if !bytes.Equal(b, bytes.Repeat([]byte{poisonByte}, len(b))) {
			t.Errorf("a body reads %q after Handle", b)
		}
	}
	if frame, length, err := in.next(1000); frame != nil || length != 0 || err != nil {
		t.Error("half a size field gave", frame, length, err)
	}
	in.release()
}

// A length field alone must not cost memory, nor what was sent of a large frame more than twice its size.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	s := startServer(t, echo, Options{})
	c := s.dial(t)
	frame := request(1, make([]byte, 90<<20))
	used := func() int64 {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		return s.memory.used
	}
	c.send(frame[:20])
	eventually(t, "a large frame", func() bool { return used() > 0 })
	if got := used(); got > growStep {
		t.Errorf("20 bytes of a frame cost %d", got)
	}
	c.send(frame[20 : 3<<20])
	eventually(t, "growth", func() bool { return used() > 3<<20 })
	if got := used(); got > 6<<20 {
		t.Errorf("3 MiB of a frame cost %d", got)
	}
	c.Close()
	eventually(t, "the memory back", func() bool { return used() == 0 })
}

func TestMemoryBudgetHoldsReadersBack(t *testing.T) {
	handling, finish := make(chan int32), make(chan struct{})
	s := startServer(t, handlerFunc(func(r *Request) {
		handling <- r.CorrelationID
		<-finish
		r.ReplyBytes(response(r.CorrelationID, nil))
	}), Options{MemoryBytes: 1_500_000})
	var clients []*testClient
	for i := range int32(3) {
		c := s.dial(t)
		clients = append(clients, c)
		c.send(request(i, make([]byte, 1_000_000)))
	}
	wait(t, "the first frame", handling)
	eventually(t, "two wait", func() bool {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		return len(s.memory.waiters) == 2
	})
	small := s.dial(t) // small frames need no memory beyond the buffer they came in
	small.send(request(9, nil))
	if id := wait(t, "a small frame", handling); id != 9 {
		t.Fatal("request", id, "was handled beyond the budget")
	}
	finish <- struct{}{}
	finish <- struct{}{}
	wait(t, "the second frame", handling)
	finish <- struct{}{}
	wait(t, "the third frame", handling)
	finish <- struct{}{}
	for i, c := range clients {
		c.wantReplies(int32(i), int32(i))
	}
}

func TestMemoryWaitEndsWithTheServer(t *testing.T) {
	s := startServer(t, echo, Options{MemoryBytes: 1})
	if err := s.memory.acquire(t.Context(), 1, false); err != nil {
		t.Fatal(err)
	}
	c := s.dial(t)
	c.send(request(1, make([]byte, 100_000)))
	eventually(t, "the reader waits", func() bool {
		s.memory.mu.Lock()
		defer s.memory.mu.Unlock()
		return len(s.memory.waiters) == 1
	})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.memory.release(1)
}

func TestCreditStopsTheReaderUntilHalfIsPaid(t *testing.T) {
	for name, o := range map[string]Options{
		"requests": {CreditRequests: 4},
		"bytes":    {CreditBytes: 4 * 1000},
	} {
		t.Run(name, func(t *testing.T) {
			handled := make(chan *Request, 100)
			s := startServer(t, handlerFunc(func(r *Request) { handled <- r }), o)
			c := s.dial(t)
			for i := range int32(10) {
				c.send(request(i, make([]byte, 990)))
			}
			var held []*Request
			for range 4 {
				held = append(held, wait(t, "a request within the credit", handled))
			}
			conn := held[0].Conn
			paused := func() bool { conn.mu.Lock(); defer conn.mu.Unlock(); return conn.resume != nil }
			eventually(t, "the reader waits", paused)
			answer := func(r *Request) { r.ReplyBytes(response(r.CorrelationID, nil)) }
			answer(held[0])
			c.wantReplies(0, 0)
			if !paused() || len(handled) != 0 {
				t.Error("the reader went on with more than half of the credit used")
			}
			answer(held[1])
			for range 2 {
				held = append(held, wait(t, "a request after payment", handled))
			}
			for _, r := range held[2:] {
				answer(r)
			}
			for range 4 {
				answer(wait(t, "the rest", handled))
			}
			c.wantReplies(1, 9)
		})
	}
}

func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		start := time.Now()
		l := newPipeListener()
		s := serveOn(t, l, handlerFunc(func(r *Request) {
			times = append(times, time.Since(start))
			r.Conn.Mute(3 * time.Second)
			r.Conn.Mute(time.Second)
			r.ReplyBytes(response(r.CorrelationID, nil))
		}), Options{StallTimeout: time.Second})
		c := newClient(t, l.dial())
		go c.send(request(1, nil), request(2, nil), request(3, nil), []byte{0, 0})
		c.wantReplies(1, 3)
		if want := []time.Duration{0, 3 * time.Second, 6 * time.Second}; !slices.Equal(times, want) {
			t.Errorf("handled at %v, want %v", times, want)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A mute that comes in the middle of a frame is no stall of the client.
func TestMuteIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		conns := make(chan *Conn, 2)
		s := serveOn(t, l, handlerFunc(func(r *Request) {
			conns <- r.Conn
			r.ReplyBytes(response(r.CorrelationID, nil))
		}), Options{StallTimeout: time.Second})
		c := newClient(t, l.dial())
		go c.send(request(1, nil), request(2, nil)[:9])
		c.wantReplies(1, 1)
		(<-conns).Mute(5 * time.Second)
		go c.send(request(2, nil)[9:])
		c.wantReplies(2, 2)
		_ = s.Shutdown(t.Context())
	})
}

func TestTimeouts(t *testing.T) {
	const idle, stall = 10 * time.Minute, 30 * time.Second
	park := handlerFunc(func(r *Request) {
		if r.CorrelationID > 0 {
			time.AfterFunc(time.Duration(r.CorrelationID)*time.Second, func() { r.ReplyBytes(response(r.CorrelationID, nil)) })
		} else {
			r.ReplyBytes(response(0, make([]byte, 100)))
		}
	})
	for name, test := range map[string]struct {
		send   []byte
		read   bool // the client reads replies
		reason error
		after  time.Duration
	}{
		"idle at once":            {nil, true, errIdle, idle},
		"idle after a reply":      {request(0, nil), true, errIdle, idle},
		"not idle while it waits": {request(3600, nil), true, errIdle, time.Hour + idle},
		"stalled size field":      {request(0, nil)[:2], true, errStalled, stall},
		"stalled frame":           {request(0, nil)[:9], true, errStalled, stall},
		"stalled large frame":     {request(0, make([]byte, 1<<20))[:100], true, errStalled, stall},
		"client does not read":    {request(0, nil), false, errSlowReader, stall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipeListener()
				closed := make(chan *Conn, 1)
				s := serveOn(t, l, park, Options{IdleTimeout: idle, StallTimeout: stall, OnClose: func(c *Conn) { closed <- c }})
				nc := l.dial()
				defer nc.Close()
				start := time.Now()
				go func() {
					_, _ = nc.Write(test.send)
					if buf := make([]byte, 1000); test.read {
						for _, err := nc.Read(buf); err == nil; _, err = nc.Read(buf) {
						}
					}
				}()
				c := <-closed
				if took := time.Since(start); took < test.after || took > test.after+3*time.Second {
					t.Errorf("closed after %v, want %v", took, test.after)
				}
				if c.cause != test.reason {
					t.Errorf("closed for %v, want %v", c.cause, test.reason)
				}
				_ = s.Shutdown(t.Context())
			})
		})
	}
}

func TestContextEndsWithAHangUp(t *testing.T) {
	handled := make(chan *Request, 1)
	s := startServer(t, handlerFunc(func(r *Request) { handled <- r }), Options{})
	c := s.dial(t)
	c.send(request(1, nil))
	r := wait(t, "the request", handled)
	early := r.Context()
	if early.Err() != nil {
		t.Fatal("cancelled too early")
	}
	c.Close()
	wait(t, "the cancellation", early.Done())
	if late := r.Context(); late.Err() == nil {
		t.Error("a context made after the hang-up is alive")
	}
	r.NoReply()
}

func TestHalfClosedClientGetsItsReplies(t *testing.T) {
	handled := make(chan *Request, 3)
	s := startServer(t, handlerFunc(func(r *Request) { handled <- r }), Options{})
	c := s.dial(t)
	c.send(request(1, nil), request(2, nil), request(3, nil)[:5])
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	one, two := wait(t, "one", handled), wait(t, "two", handled)
	wait(t, "the hang-up", one.Context().Done())
	two.ReplyBytes(response(2, nil))
	one.ReplyBytes(response(1, nil))
	c.wantReplies(1, 2)
	c.wantEnd()
}

func TestPanicCostsTheConnectionOnly(t *testing.T) {
	for name, answerFirst := range map[string]bool{"before the reply": false, "after the reply": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, handlerFunc(func(r *Request) {
				if r.CorrelationID != 2 || answerFirst {
					r.ReplyBytes(response(r.CorrelationID, nil))
				}
				if r.CorrelationID == 2 {
					panic("planted")
				}
			}), Options{})
			c := s.dial(t)
			c.send(request(1, nil))
			c.wantReplies(1, 1)
			c.send(request(2, nil), request(3, nil))
			if id, _, err := c.tryRecv(); err == nil && id != 2 {
				t.Error("reply", id, "after a panic")
			}
			if got := counted(s.metrics.panics); got != 1 {
				t.Error(got, "panics counted")
			}
			probe := s.dial(t)
			probe.send(request(4, nil))
			probe.wantReplies(4, 4)
		})
	}
}

func TestBudgetOrder(t *testing.T) {
	b := newBudget(100, NewMetrics(nil).memory)
	if !b.try(60) || b.try(50) {
		t.Fatal("try does not keep the bound")
	}
	var order []string
	granted := make(chan string)
	ask := func(name string, n int64, first bool) {
		waiting := len(b.waiters)
		go func() {
			if b.acquire(t.Context(), n, first) == nil {
				granted <- name
			}
		}()
		eventually(t, name+" waits", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.waiters) > waiting })
	}
	ask("new", 50, false)
	ask("small", 10, false)
	ask("growing", 80, true)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errIdle)
	if err := b.acquire(ctx, 10, false); err != errIdle {
		t.Error("acquire after cancellation:", err)
	}
	b.release(60)
	order = append(order, wait(t, "growing", granted))
	b.release(80)
	order = append(order, wait(t, "one", granted), wait(t, "another", granted))
	slices.Sort(order[1:])
	if !slices.Equal(order, []string{"growing", "new", "small"}) {
		t.Error("granted in order", order)
	}
	b.release(60)
	if !b.try(1000) {
		t.Error("a claim larger than the budget must pass when it is alone")
	}
	b.cancel(&claim{n: 1000}) // granted when its owner had given up already
	if b.used != 0 {
		t.Error(b.used, "bytes in use at the end")
	}
}

func TestReadAheadStaysWithinItsShare(t *testing.T) {
	b := newBudget(4*readAheadMax, NewMetrics(nil).memory)
	in := input{memory: b, ahead: readAheadMax}
	var bufs [][]byte
	for i, want := range []int{readAheadMax, readAheadMax, readAheadMin, readAheadMin} {
		bufs = append(bufs, in.take())
		if got := len(bufs[i]); got != want {
			t.Errorf("buffer %d has %d bytes, want %d", i, got, want)
		}
	}
	if !b.try(2 * readAheadMax) {
		t.Error("reading ahead left nothing to large frames")
	}
	b.release(2 * readAheadMax)
	for _, buf := range bufs {
		in.give(buf)
	}
	if b.used != 0 {
		t.Error(b.used, "bytes were not given back")
	}
}

func TestReadAheadAdapts(t *testing.T) {
	in := input{memory: newBudget(1<<30, NewMetrics(nil).memory), ahead: readAheadMin}
	came := func(n int) {
		in.buf = in.take()[:n]
		in.adapt()
		in.drop()
	}
	for _, want := range []int{16 << 10, 64 << 10, readAheadMax, readAheadMax} {
		if came(in.ahead); in.ahead != want {
			t.Errorf("after a full buffer the next has %d bytes, want %d", in.ahead, want)
		}
	}
	if came(readAheadMin + 1); in.ahead != readAheadMax {
		t.Error("it shrank although more came than the smallest holds")
	}
	if came(readAheadMin); in.ahead != readAheadMin {
		t.Error("it did not shrink")
	}
	in.ahead = readAheadMax
	in.buf = append(in.take()[:0], request(1, make([]byte, 1000))...)
	in.begin(largeFrame+1, largeFrame+1)
	if in.ahead != readAheadMin {
		t.Error("it did not shrink for a large frame")
	}
	in.release()
}

// Idle connections hold no buffer.
func TestIdleConnectionsAreCheap(t *testing.T) {
	var open atomic.Int32
	s := startServer(t, echo, Options{OnClose: func(*Conn) { open.Add(-1) }})
	const n = 500
	before := heapInUse()
	clients := make([]net.Conn, n)
	for i := range clients {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = c
		open.Add(1)
		frame := request(1, make([]byte, 100))
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(frame); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes a connection, with the client's end", (heapInUse()-before)/n)
	eventually(t, "no buffer in use", func() bool { return liveBuffers.Load() == 0 })
	for _, c := range clients {
		c.Close()
	}
	eventually(t, "all closed", func() bool { return open.Load() == 0 })
}

func TestReasons(t *testing.T) {
	if got := reasonOf(errors.New("connection reset")); got != "network" {
		t.Error(got)
	}
	if got := reasonOf(errIdle); got != "idle" {
		t.Error(got)
	}
}

// The end of a mute has a monotonic reading: when somebody sets the wall clock back an hour, nobody is mute for an hour more.
func TestMuteIgnoresTheWallClock(t *testing.T) {
	var c Conn
	c.Mute(time.Minute)
	if until := c.mutedUntil.Load(); *until == until.Round(0) {
		t.Errorf("mute until %v by the wall clock", until)
	}
}
