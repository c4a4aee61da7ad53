package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"sluice/kproto"
)

func TestMain(m *testing.M) {
	PoisonFreedBuffers()
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen; it is no measure.
const patience = time.Minute

type handlerFunc func(r *Request)

func (f handlerFunc) Handle(r *Request) { f(r) }

// parseTest reads a request header v1 with a null client id.
func parseTest(h *kproto.RequestHeader, frame []byte) (body []byte, err error) {
	if len(frame) < 10 {
		return nil, errors.New("short header")
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	return frame[10:], nil
}

// request is a frame with that header.
func request(correlation int32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(10+len(body)))
	b = append(b, 0, 18, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(b, 0xff, 0xff)
	return append(b, body...)
}

// response is a pooled reply with the correlation id and a body of one piece.
func response(correlation int32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(GetBuffer(8+len(body)), uint32(4+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return append(b, body...)
}

// echo answers each request with its body, inline.
var echo = handlerFunc(func(r *Request) { r.ReplyBytes(response(r.CorrelationID, r.Body)) })

type testServer struct {
	*Server
	addr string
}

// startServer serves h on loopback until the test ends, and then checks that nothing is held any more.
func startServer(t testing.TB, h Handler, o Options, prepare ...func(*Server)) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, h, o, prepare...)
}

func serveOn(t testing.TB, l net.Listener, h Handler, o Options, prepare ...func(*Server)) *testServer {
	if o.Logger == nil && testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s := New(h, o)
	s.parse = parseTest
	for _, p := range prepare {
		p(s)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error("Serve:", err)
		}
		if s.memory.used != 0 {
			t.Error(s.memory.used, "bytes of the memory budget were not given back")
		}
		if poisoning {
			eventually(t, "all buffers are given back", func() bool { return liveBuffers.Load() == 0 })
		}
	})
	return &testServer{Server: s, addr: l.Addr().String()}
}

type testClient struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (s *testServer) dial(t testing.TB) *testClient {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *testClient {
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return &testClient{Conn: nc, t: t, r: bufio.NewReaderSize(nc, 64<<10)}
}

func (c *testClient) send(frames ...[]byte) {
	c.t.Helper()
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	if _, err := c.Write(all); err != nil {
		c.t.Fatal("write:", err)
	}
}

func (c *testClient) recv() (correlation int32, body []byte) {
	c.t.Helper()
	correlation, body, err := c.tryRecv()
	if err != nil {
		c.t.Fatal("read:", err)
	}
	return correlation, body
}

func (c *testClient) tryRecv() (correlation int32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err = io.ReadFull(c.r, body)
	return int32(binary.BigEndian.Uint32(head[4:])), body, err
}

// wantEnd expects the end of the stream.
func (c *testClient) wantEnd() {
	c.t.Helper()
	if n, body, err := c.tryRecv(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("got reply %d (%d bytes), error %v; want the end of the stream", n, len(body), err)
	}
}

// wantReplies expects the replies first..last, in order.
func (c *testClient) wantReplies(first, last int32) {
	c.t.Helper()
	for want := first; want <= last; want++ {
		if got, _ := c.recv(); got != want {
			c.t.Fatalf("got reply %d, want %d", got, want)
		}
	}
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened:", what)
		}
	}
}

// wait receives from a channel that a test must see something on.
func wait[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal("never happened:", what)
		panic("unreachable")
	}
}

// pipeListener gives connections in memory, for bubbles of synctest and for the way without a socket.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func counted(c prometheus.Metric) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	if m.Gauge != nil {
		return m.Gauge.GetValue()
	}
	return m.Counter.GetValue()
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}

func newReader(nc net.Conn) *bufio.Reader { return bufio.NewReaderSize(nc, 64<<10) }

// contextWith gives a context that the test may end.
func contextWith(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
