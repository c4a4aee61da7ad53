package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// counting counts the turns of a connection's writers.
type counting struct {
	transport
	sends atomic.Int32
}

func (c *counting) send(o *outbound) error {
	if len(o.bufs) > 0 || o.left > 0 {
		c.sends.Add(1)
	}
	return c.transport.send(o)
}

func countSends(wires chan<- *counting) func(*Server) {
	return func(s *Server) {
		s.transport = func(c *Conn) transport {
			wire := &counting{transport: newTransport(c)}
			wires <- wire
			return wire
		}
	}
}

func TestInlineRepliesShareAWrite(t *testing.T) {
	wires := make(chan *counting, 1)
	s := startServer(t, echo, Options{}, countSends(wires))
	c := s.dial(t)
	c.send(request(1, nil), request(2, nil), request(3, nil), request(4, nil), request(5, nil))
	c.wantReplies(1, 5)
	// One write on loopback arrives as one piece, and one more read is possible in the worst case.
	if got := (<-wires).sends.Load(); got > 2 {
		t.Errorf("5 replies took %d writes", got)
	}
}

func TestRepliesCompletedElsewhereShareAWrite(t *testing.T) {
	handled := make(chan *Request, 5)
	wires := make(chan *counting, 1)
	s := startServer(t, handlerFunc(func(r *Request) { handled <- r }), Options{}, countSends(wires))
	c := s.dial(t)
	var held []*Request
	for i := range int32(5) {
		c.send(request(i, nil))
		held = append(held, wait(t, "a request", handled))
	}
	for _, r := range slices.Backward(held) { // the head comes last, so that all are ready then
		r.ReplyBytes(response(r.CorrelationID, nil))
	}
	c.wantReplies(0, 4)
	if got := (<-wires).sends.Load(); got != 1 {
		t.Errorf("5 replies took %d writes", got)
	}
}

func TestNoReplyTakesItsTurn(t *testing.T) {
	s := startServer(t, handlerFunc(func(r *Request) {
		if r.CorrelationID%2 == 0 {
			r.NoReply()
		} else {
			r.ReplyBytes(response(r.CorrelationID, nil))
		}
	}), Options{})
	c := s.dial(t)
	c.send(request(2, nil), request(1, nil), request(4, nil), request(6, nil), request(3, nil))
	c.wantReplies(1, 1)
	c.wantReplies(3, 3)
}

func TestAbortWaitsForEarlierReplies(t *testing.T) {
	for name, later := range map[string]bool{"inline": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			handled := make(chan *Request, 3)
			var dropped atomic.Int32
			s := startServer(t, handlerFunc(func(r *Request) {
				switch {
				case r.CorrelationID == 2 && !later:
					r.Abort("test")
				default:
					handled <- r
				}
			}), Options{})
			c := s.dial(t)
			c.send(request(1, nil))
			one := wait(t, "one", handled)
			c.send(request(2, nil))
			if later {
				two := wait(t, "two", handled)
				c.send(request(3, nil))
				three := wait(t, "three", handled)
				three.Reply(Reply{Parts: []Part{{Bytes: response(3, nil), Pool: true}}, Done: func(sent Sent) {
					if sent == SentNothing {
						dropped.Add(1)
					}
				}})
				two.Abort("test")
			}
			c.send(bytes.Repeat([]byte("unread"), 10_000))
			one.ReplyBytes(response(1, nil))
			c.wantReplies(1, 1)
			c.wantEnd()
			eventually(t, "the reply behind the abort is dropped", func() bool { return !later || dropped.Load() == 1 })
			if got := counted(s.metrics.aborted.vec.WithLabelValues("test")); got != 1 {
				t.Error("aborts counted:", got)
			}
		})
	}
}

// The client sees the end at once, however long the server goes on reading.
func TestAbortEndsTheStreamAtOnce(t *testing.T) {
	s := startServer(t, handlerFunc(func(r *Request) { r.Abort("test") }), Options{}, func(s *Server) { s.tick = time.Hour })
	c := s.dial(t)
	c.send(request(1, nil), bytes.Repeat([]byte("unread"), 10_000))
	c.wantEnd()
	if counted(s.metrics.open) != 1 {
		t.Error("the connection did not wait for what the client still sends")
	}
	c.Close()
	eventually(t, "the end", func() bool { return counted(s.metrics.open) == 0 })
}

func TestAbortReasonsAreBounded(t *testing.T) {
	m := NewMetrics(nil)
	for i := range maxReasons + 10 {
		m.aborted.inc(fmt.Sprint("reason ", i))
	}
	if got := counted(m.aborted.vec.WithLabelValues("other")); got != 10 {
		t.Error("counted as other:", got)
	}
}

// segment makes a file of random bytes.
func segment(t testing.TB, size int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, content
}

// The same ranges arrive the same, by sendfile and by copying, over TCP and over a pipe.
func TestFileRanges(t *testing.T) {
	f, content := segment(t, 3<<20)
	type span struct{ pos, len int64 }
	spans := []span{{0, 10}, {5, 0}, {100, sendfileMin - 1}, {7, sendfileMin}, {1 << 20, 1<<20 + 1}, {33, copyStep}, {3<<20 - 20_000, 20_000}}
	h := func(useOS bool) Handler {
		return handlerFunc(func(r *Request) {
			var size int64
			for _, s := range spans {
				size += s.len + 1
			}
			head := response(r.CorrelationID, nil)
			head[0], head[1], head[2], head[3] = byte((size+4)>>24), byte((size+4)>>16), byte((size+4)>>8), byte(size+4)
			parts := append(r.Scratch(), Part{Bytes: head, Pool: true})
			for i, s := range spans {
				parts = append(parts, Part{Bytes: []byte{byte(i)}})
				p := Part{Reader: f, Pos: s.pos, Len: s.len}
				if useOS {
					p.OS = f
				}
				parts = append(parts, p)
			}
			r.Reply(Reply{Parts: parts})
		})
	}
	var want []byte
	for i, s := range spans {
		want = append(append(want, byte(i)), content[s.pos:s.pos+s.len]...)
	}
	check := func(t *testing.T, c *testClient) {
		for i := range int32(3) {
			c.send(request(i, nil), request(i+100, nil))
			for _, id := range []int32{i, i + 100} {
				if got, body := c.recv(); got != id || !bytes.Equal(body, want) {
					t.Fatalf("reply %d has id %d and %d bytes, want %d", id, got, len(body), len(want))
				}
			}
		}
	}
	for name, useOS := range map[string]bool{"sendfile": true, "copy": false} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, h(useOS), Options{})
			check(t, s.dial(t))
			if got := counted(s.metrics.sendfile) > 0; got != useOS {
				t.Error("sendfile was used:", got)
			}
		})
		t.Run(name+" over a pipe", func(t *testing.T) {
			l := newPipeListener()
			serveOn(t, l, h(useOS), Options{})
			c := newClient(t, l.dial())
			check(t, c)
		})
	}
}

func TestShortFileClosesTheConnection(t *testing.T) {
	f, _ := segment(t, 50_000)
	for name, part := range map[string]Part{
		"sendfile": {OS: f, Reader: f, Pos: 20_000, Len: 40_000},
		"copy":     {Reader: f, Pos: 20_000, Len: 40_000},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan Sent, 2)
			ended := make(chan *Conn, 1)
			s := startServer(t, handlerFunc(func(r *Request) {
				r.Reply(Reply{Parts: append(r.Scratch(), Part{Bytes: response(r.CorrelationID, make([]byte, 40_000)), Pool: true}, part),
					Done: func(sent Sent) { done <- sent }})
			}), Options{OnClose: func(c *Conn) { ended <- c }})
			c := s.dial(t)
			c.send(request(1, nil))
			if wait(t, "Done", done) != SentPart {
				t.Error("a reply that was cut does not count as sent in part")
			}
			if c := wait(t, "the end", ended); !errors.Is(c.cause, errShortFile) {
				t.Error("closed for", c.cause)
			}
			_, _ = io.Copy(io.Discard, c)
		})
	}
}

// A client that does not read must not keep the server from reading, nor other connections from anything.
func TestSlowReader(t *testing.T) {
	f, content := segment(t, 8<<20)
	var handled atomic.Int32
	s := startServer(t, handlerFunc(func(r *Request) {
		handled.Add(1)
		head := response(r.CorrelationID, nil)
		size := 4 + len(content)
		head[0], head[1], head[2], head[3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
		r.Reply(Reply{Parts: append(r.Scratch(), Part{Bytes: head, Pool: true}, Part{OS: f, Len: int64(len(content))})})
	}), Options{})
	c := s.dial(t)
	for i := range int32(5) {
		c.send(request(i, nil))
	}
	eventually(t, "all requests are handled", func() bool { return handled.Load() == 5 })
	for i := range int32(5) {
		if id, body := c.recv(); id != i || !bytes.Equal(body, content) {
			t.Fatal("reply", i, "is not what was sent")
		}
	}
}

func TestCompletingTwiceIsHarmless(t *testing.T) {
	s := startServer(t, handlerFunc(func(r *Request) {
		r.ReplyBytes(response(r.CorrelationID, nil))
		r.NoReply()
	}), Options{})
	c := s.dial(t)
	c.send(request(1, nil), request(2, nil))
	c.wantReplies(1, 2)
}

// Whatever clients and handlers do, every reply's Done is called once, OnClose once and last, and all memory comes back.
func TestDoneExactlyOnce(t *testing.T) {
	f, _ := segment(t, 100_000)
	rapid.Check(t, func(rt *rapid.T) { oneLife(t, rt, f) })
}

func oneLife(t *testing.T, rt *rapid.T, f *os.File) {
	plan := rapid.SliceOfN(rapid.SampledFrom([]string{"inline", "later", "file", "short file", "no reply", "abort", "panic"}), 1, 12).Draw(rt, "plan")
	hangUp := rapid.SampledFrom([]string{"after replies", "half", "at once", "server stops", "server killed"}).Draw(rt, "hang-up")
	onPipe := rapid.Bool().Draw(rt, "pipe")

	var calls [12]atomic.Int32
	var replies, closes, afterClose atomic.Int32
	var later sync.WaitGroup
	h := handlerFunc(func(r *Request) {
		i := r.CorrelationID
		done := func(Sent) {
			calls[i].Add(1)
			afterClose.Add(closes.Load())
		}
		out := Reply{Parts: append(r.Scratch(), Part{Bytes: response(i, nil), Pool: true}), Done: done}
		switch plan[i] {
		case "later":
			replies.Add(1)
			later.Add(1)
			time.AfterFunc(time.Duration(i%3)*100*time.Microsecond, func() { defer later.Done(); r.Reply(out) })
		case "file", "short file":
			replies.Add(1)
			pos := int64(0)
			if plan[i] == "short file" {
				pos = 90_000
			}
			PutBuffer(out.Parts[0].Bytes)
			out.Parts[0] = Part{Bytes: []byte{0, 0, 0x4e, 0x24, 0, 0, 0, byte(i)}} // 20,000 bytes and the id
			out.Parts = append(out.Parts, Part{OS: f, Reader: f, Pos: pos, Len: 20_000})
			r.Reply(out)
		case "no reply":
			PutBuffer(out.Parts[0].Bytes)
			r.NoReply()
		case "abort":
			PutBuffer(out.Parts[0].Bytes)
			r.Abort("planned")
		case "panic":
			PutBuffer(out.Parts[0].Bytes)
			panic("planned")
		default:
			replies.Add(1)
			r.Reply(out)
		}
	})
	o := Options{OnClose: func(*Conn) { closes.Add(1) }}
	s := New(h, o)
	s.parse = parseTest
	l, dial := listenAnywhere(t, onPipe)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	nc := dial()
	_ = nc.SetDeadline(time.Now().Add(patience))
	go func() {
		for i := range plan {
			if _, err := nc.Write(request(int32(i), make([]byte, i*i*100))); err != nil {
				return
			}
		}
		if half, ok := nc.(*net.TCPConn); ok && hangUp == "half" {
			_ = half.CloseWrite()
		}
	}()
	eventually(t, "accepted", func() bool { return counted(s.metrics.accepted) == 1 })
	killed, kill := contextWith(t)
	switch hangUp {
	case "at once":
		nc.Close()
	case "server killed":
		kill()
	case "server stops":
		go func() { _, _ = io.Copy(io.Discard, nc) }()
	default:
		c := &testClient{Conn: nc, t: t, r: newReader(nc)}
		for i, kind := range plan {
			if kind == "no reply" {
				continue
			}
			ends := kind == "abort" || kind == "panic" || kind == "short file"
			if id, _, err := c.tryRecv(); ends != (err != nil) || !ends && id != int32(i) {
				rt.Errorf("request %d (%s) got reply %d, error %v", i, kind, id, err)
			}
			if ends {
				break
			}
		}
		nc.Close()
	}
	if err := s.Shutdown(killed); err != nil && hangUp != "server killed" {
		rt.Fatal(err)
	}
	nc.Close()
	kill()
	<-served
	later.Wait()
	eventually(t, "the connection's end is told", func() bool { return closes.Load() == 1 })
	total := int32(0)
	for i := range plan {
		if n := calls[i].Load(); n > 1 {
			rt.Errorf("Done of request %d (%s) was called %d times", i, plan[i], n)
		}
		total += calls[i].Load()
	}
	if total != replies.Load() {
		rt.Errorf("%d calls of Done for %d replies", total, replies.Load())
	}
	if afterClose.Load() > 0 {
		rt.Error("Done was called after OnClose")
	}
	if n := liveBuffers.Load(); n != 0 {
		rt.Errorf("%d buffers were not given back", n)
	}
	if s.memory.used != 0 {
		rt.Errorf("%d bytes of the memory budget were not given back", s.memory.used)
	}
}

func listenAnywhere(t *testing.T, onPipe bool) (net.Listener, func() net.Conn) {
	if onPipe {
		l := newPipeListener()
		return l, l.dial
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, func() net.Conn {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
}

// In the steady state a small request allocates nothing.
func TestRequestsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools drop what they get")
	}
	s := startServer(t, echo, Options{})
	c := s.dial(t)
	frame, reply := request(1, nil), make([]byte, 8)
	perRun := testing.AllocsPerRun(500, func() {
		if _, err := c.Conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.r, reply); err != nil {
			t.Fatal(err)
		}
	})
	if perRun > 0 {
		t.Errorf("%v allocations a request", perRun)
	}
}

func TestBuffers(t *testing.T) {
	for _, n := range []int{0, 1, 512, 513, 4096, 4097, 1 << 22, 1<<22 + 1} {
		b := GetBuffer(n)
		if len(b) != 0 || cap(b) < n || cap(b) != classSize(max(n, 1)) {
			t.Errorf("GetBuffer(%d) has length %d, capacity %d", n, len(b), cap(b))
		}
		b = append(b, make([]byte, n)...)
		PutBuffer(b)
		if n > 0 && n <= 1<<maxClass && b[0] != poisonByte {
			t.Errorf("a freed buffer of %d bytes is readable", n)
		}
	}
	PutBuffer(nil)
	PutBuffer(make([]byte, 1000)) // not from the pool: left to the collector
}

func TestAppendPastABufferIsHarmless(t *testing.T) {
	s := startServer(t, handlerFunc(func(r *Request) {
		b := response(r.CorrelationID, nil)
		liveBuffers.Add(-1) // append leaves the pooled one to the collector
		b = append(b, strings.Repeat("x", 1500)...)
		b[2], b[3] = byte(1504>>8), byte(1504&0xff)
		r.ReplyBytes(b[:len(b):len(b)])
	}), Options{})
	c := s.dial(t)
	c.send(request(1, nil), request(2, nil))
	c.wantReplies(1, 2)
}

// tornWire is a connection that takes a number of bytes and then breaks.
type tornWire struct {
	transport
	room int
}

func (w *tornWire) send(o *outbound) error {
	for len(o.bufs) > 0 {
		n := min(w.room, len(o.bufs[0]))
		if n == 0 {
			return io.ErrClosedPipe
		}
		w.room -= n
		o.sent(n)
	}
	return nil
}

func (w *tornWire) sendfiles() bool { return false }

// Whoever charges for what leaves must know whether anything of a reply did.
func TestDoneTellsWhetherAReplyBegan(t *testing.T) {
	const size = 100 // of each of three replies; the last comes in many pieces
	for room, want := range map[int][3]Sent{
		0:                      {SentNothing, SentNothing, SentNothing},
		1:                      {SentPart, SentNothing, SentNothing},
		size:                   {SentPart, SentNothing, SentNothing}, // all of it, but in a turn that failed
		size + 1:               {SentPart, SentPart, SentNothing},
		2*size + 1:             {SentPart, SentPart, SentPart},
		3*size + maxPieces - 2: {SentAll, SentAll, SentPart}, // in the second turn
		3*size + maxPieces:     {SentAll, SentAll, SentAll},
	} {
		var got [3]Sent
		w := newWriter(&Conn{srv: New(nil, Options{})})
		w.conn.t = &tornWire{room: room}
		var all [3]Request
		for i := range all {
			all[i].begins, all[i].Conn = notBegun, w.conn
			all[i].refs.Store(2)
			all[i].reply.Parts = []Part{{Bytes: make([]byte, size)}}
			all[i].reply.Done = func(s Sent) { got[i] = s }
			if i > 0 {
				all[i-1].next = &all[i]
			}
		}
		for range maxPieces {
			all[2].reply.Parts = append(all[2].reply.Parts, Part{Bytes: make([]byte, 1)})
		}
		w.first, w.next = &all[0], &all[0]
		if err := w.send(); err != nil {
			w.giveUp()
		}
		for i, s := range want {
			if got[i] != s {
				t.Errorf("with room for %d bytes: reply %d: %d, want %d", room, i, got[i], s)
			}
		}
	}
}
