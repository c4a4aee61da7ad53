// Package server owns connections: it listens, cuts frames, keeps the order of replies, limits what a
// connection may hold, and notices hang-ups. Of an API it knows no more than its header.
package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"sluice/kproto"
)

// SEAM FILE: signatures that broker builds on; the implementation replaces it by several files (server.go, conn.go, frame.go, reply.go, sendfile.go ...).

// Handler is the broker.
type Handler interface {
	// Handle runs stage one of a request: whatever must happen in the order of the requests on the connection. It runs on the connection's
	// reader and must not wait. Exactly one of r.Reply, r.NoReply and r.Abort must be called, now or later, from any goroutine.
	// r.Body is valid only until Handle returns.
	Handle(r *Request)
}

// Request is one frame of a connection.
type Request struct {
	kproto.RequestHeader
	Body     []byte // valid until Handle returns
	Conn     *Conn
	Received time.Time
}

// Context is cancelled when the client hangs up or the server stops. Only calls that park look at it.
func (r *Request) Context() context.Context { panic("seam") }

// Reply completes the request. Replies leave in the order of the requests. It never blocks and takes ownership of out.
func (r *Request) Reply(out Reply) { panic("seam") }

// NoReply completes a request that has no answer (acks=0).
func (r *Request) NoReply() { panic("seam") }

// Abort closes the connection once the replies before this one are written; reason is logged at debug and counted.
func (r *Request) Abort(reason string) { panic("seam") }

// Reply is a response as bytes and file ranges, in order; the frame's size field is part of the first Bytes.
// Build one with GetBuffer to have its bytes pooled.
type Reply struct {
	Parts []Part
	// Done is called exactly once, when the reply was written whole (sent true) or will never be written whole.
	Done func(sent bool)
}

// Part is either bytes or a file range.
type Part struct {
	Bytes []byte
	Pool  bool // Bytes came from GetBuffer and goes back after the write

	Reader io.ReaderAt // file range when Bytes is nil
	OS     *os.File    // for sendfile; nil: copy through Reader
	Pos    int64
	Len    int64
}

// GetBuffer gives an empty pooled slice with at least this capacity; it returns to the pool through Part.Pool, or PutBuffer.
func GetBuffer(capacity int) []byte { panic("seam") }
func PutBuffer(b []byte)            { panic("seam") }

// Conn is one client connection.
type Conn struct {
	// Session is the broker's own state of the connection; only the Handler touches it, on the reader.
	Session any
}

func (c *Conn) ID() uint64           { panic("seam") }
func (c *Conn) LocalAddr() net.Addr  { panic("seam") }
func (c *Conn) RemoteAddr() net.Addr { panic("seam") }

// Mute stops reading from the connection for d (client quotas; KIP-219).
func (c *Conn) Mute(d time.Duration) { panic("seam") }

// Options are the limits; zero values mean the defaults named in limits.go.
type Options struct {
	MaxFrame       int           // socket.request.max.bytes, 100 MiB
	MaxConns       int           // max.connections
	MaxConnsPerIP  int           // max.connections.per.ip
	CreditBytes    int64         // request bytes a connection may have unanswered, 8 MiB
	CreditRequests int           // requests a connection may have unanswered, 400
	MemoryBytes    int64         // request bytes of all connections, queued.max.request.bytes
	IdleTimeout    time.Duration // connections.max.idle.ms, 10 min
	StallTimeout   time.Duration // 30 s for the rest of a frame, and for a write
	SendBuffer     int           // socket.send.buffer.bytes, -1 the kernel's
	ReceiveBuffer  int
	Logger         *slog.Logger
	Metrics        *Metrics // nil: not counted
	// OnClose is told when a connection ends, after its last request completed.
	OnClose func(*Conn)
}

// Metrics are the counters of this package (Prometheus).
type Metrics struct{}

type Server struct{}

func New(h Handler, o Options) *Server { panic("seam") }

// Serve accepts on l until Shutdown; it may be called for several listeners.
func (s *Server) Serve(l net.Listener) error { panic("seam") }

// Shutdown stops accepting and reading, lets requests in flight finish and their replies leave until ctx ends, then closes everything.
func (s *Server) Shutdown(ctx context.Context) error { panic("seam") }

// Listen opens addr for Kafka clients: for 127.0.0.1 the listener on ::1 with the same port stands beside it where IPv6 exists.
func Listen(addr string) ([]net.Listener, error) { panic("seam") }
