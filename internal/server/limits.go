package server

import (
	"log/slog"
	"math"
	"runtime/debug"
	"time"
)

// Options are the limits; zero values mean the defaults named below.
type Options struct {
	MaxFrame       int           // socket.request.max.bytes
	MaxConns       int           // max.connections, or what the limit of open files allows; others wait to be accepted
	MaxConnsPerIP  int           // max.connections.per.ip
	CreditBytes    int64         // request bytes a connection may have unanswered
	CreditRequests int           // requests a connection may have unanswered
	MemoryBytes    int64         // bytes of frames being read and handled, all connections (queued.max.request.bytes)
	IdleTimeout    time.Duration // connections.max.idle.ms
	StallTimeout   time.Duration // for the rest of a frame, and for a write
	SendBuffer     int           // socket.send.buffer.bytes; <= 0: the kernel's own
	ReceiveBuffer  int           // socket.receive.buffer.bytes; <= 0: the kernel's own
	Logger         *slog.Logger  // nil: discarded
	Metrics        *Metrics      // nil: not counted
	// OnClose is told when a connection ends, after its last request completed.
	OnClose func(*Conn)
}

// Defaults of Options.
const (
	// DefaultMaxFrame is Kafka's: 100 MiB.
	DefaultMaxFrame = 100 << 20

	// DefaultMaxConns leaves room for the log's files below a descriptor limit of 20,000, which is common.
	DefaultMaxConns = 12_000

	// DefaultMaxConnsPerIP is no limit, as in Kafka: whole sites stand behind one address.
	DefaultMaxConnsPerIP = math.MaxInt32

	// DefaultCreditBytes of requests unanswered on a connection hold a producer's five requests of 1 MiB with
	// room to spare, and keep one client from filling the memory with work that waits.
	DefaultCreditBytes = 8 << 20

	// DefaultCreditRequests is that bound for small requests.
	DefaultCreditRequests = 400

	// defaultMemoryShare of GOMEMLIMIT goes to frames while they are read: a quarter.
	defaultMemoryShare = 4

	// DefaultMemoryBytes is the bound when the process has no memory limit: two of the largest frames and some.
	DefaultMemoryBytes = 256 << 20

	// DefaultIdleTimeout is Kafka's: 10 min without a request in either direction.
	DefaultIdleTimeout = 10 * time.Minute

	// DefaultStallTimeout is what a client has for each further MiB of a frame it began, or for taking any byte
	// of a reply: longer than a network that comes back, shorter than an attack that pays.
	DefaultStallTimeout = 30 * time.Second
)

// Limits that nobody sets.
const (
	// readAheadMin is the buffer a reader takes when the first byte arrives. Of a large frame it copies that much.
	readAheadMin = 4 << 10

	// readAheadMax is how far the buffer grows for pipelined requests, as long as the memory budget allows: about a
	// processor's second cache, and 100 requests of 2.5 KB or two of 100 KB in one read.
	readAheadMax = 256 << 10

	// largeFrame is the size from which reading ahead costs more (moving the half that came last) than it saves.
	largeFrame = readAheadMax / 2

	// aheadShare of the memory budget goes to reading ahead: half, so that large frames find the rest.
	aheadShare = 2

	// growStep is how much of a frame is allocated on the client's word alone. Beyond it the buffer doubles as
	// bytes arrive, so that a length field alone costs no more than this.
	growStep = 1 << 20

	// sendfileMin is the length from which a file range is cheaper by sendfile than by a read and a copy.
	sendfileMin = 16 << 10

	// copyStep is the buffer for file ranges that must be copied (TLS, files in memory).
	copyStep = 256 << 10

	// maxPieces of bytes go into one system call; the kernel takes 1,024.
	maxPieces = 64

	// keptParts is the longest list of parts that a pooled Request keeps for the next reply.
	keptParts = 256

	// maxReasons bounds the label values of the counter of aborts; more are counted as "other".
	maxReasons = 64

	// muteLook is how often a muted connection, which is not read, is looked at whether its client has hung up.
	muteLook = time.Second

	// lingerTicks of the watchdog is how long an aborted connection is read and thrown away before it closes:
	// closing a socket with unread bytes would reset it, and the replies before the abort could be lost.
	lingerTicks = 2

	// keepAlive probes of TCP find hosts that vanished.
	keepAlive = 30 * time.Second

	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second

	// tickMax and tickMin bound the watchdog's period, which is an eighth of the shortest timeout.
	tickMax = time.Second
	tickMin = time.Millisecond
)

func (o Options) withDefaults() Options {
	def(&o.MaxFrame, DefaultMaxFrame)
	def(&o.MaxConns, DefaultMaxConns)
	def(&o.MaxConnsPerIP, DefaultMaxConnsPerIP)
	def(&o.CreditBytes, DefaultCreditBytes)
	def(&o.CreditRequests, DefaultCreditRequests)
	def(&o.MemoryBytes, defaultMemory())
	def(&o.IdleTimeout, DefaultIdleTimeout)
	def(&o.StallTimeout, DefaultStallTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.OnClose == nil {
		o.OnClose = func(*Conn) {}
	}
	return o
}

func def[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

func defaultMemory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return max(limit/defaultMemoryShare, 2*growStep)
	}
	return DefaultMemoryBytes
}
