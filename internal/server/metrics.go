package server

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metrics are the counters of this package. The names follow Kafka's socket-server-metrics and RequestMetrics
// where those have one (connection-count, connection-creation-total, incoming-byte-total, RequestsPerSec).
type Metrics struct {
	open         prometheus.Gauge
	accepted     prometheus.Counter
	refused      *prometheus.CounterVec // reason
	closed       *prometheus.CounterVec // reason
	acceptErrors prometheus.Counter
	acceptPauses prometheus.Counter
	requests     apiCounters
	aborted      reasonCounters
	panics       prometheus.Counter
	in           prometheus.Counter
	out          prometheus.Counter
	sendfile     prometheus.Counter
	copied       prometheus.Counter
	memory       prometheus.Gauge
}

// NewMetrics registers the counters; a nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &Metrics{
		open:         gauge("sluice_server_connection_count", "Connections open."),
		accepted:     counter("sluice_server_connection_creation_total", "Connections accepted."),
		refused:      vec("sluice_server_connection_refused_total", "Connections closed as they came, by limit.", "reason"),
		closed:       vec("sluice_server_connection_close_total", "Connections that ended, by why.", "reason"),
		acceptErrors: counter("sluice_server_accept_errors_total", "Failures of accept, mostly for lack of descriptors."),
		acceptPauses: counter("sluice_server_accept_pauses_total", "Times that no connection was accepted until another one ended, for their number."),
		requests:     apiCounters{vec: vec("sluice_server_requests_total", "Requests received, by API.", "request")},
		aborted:      reasonCounters{vec: vec("sluice_server_requests_aborted_total", "Requests answered by closing the connection, by why.", "reason")},
		panics:       counter("sluice_server_handler_panics_total", "Panics of request handlers; each is a bug."),
		in:           counter("sluice_server_incoming_bytes_total", "Bytes read from clients."),
		out:          counter("sluice_server_outgoing_bytes_total", "Bytes written to clients."),
		sendfile:     counter("sluice_server_sendfile_bytes_total", "Bytes of files sent without a copy."),
		copied:       counter("sluice_server_file_copy_bytes_total", "Bytes of files sent through a buffer."),
		memory:       gauge("sluice_server_request_memory_bytes", "Bytes that large requests hold while they are read and handled."),
	}
}

// apiCounters keep a pointer for each API key, since looking up a label costs more than counting.
type apiCounters struct {
	vec   *prometheus.CounterVec
	byKey [kmsg.MaxKey + 1]atomic.Pointer[prometheus.Counter]
}

func (a *apiCounters) inc(key int16) {
	if key < 0 || int(key) >= len(a.byKey) {
		a.vec.WithLabelValues("Unknown").Inc()
		return
	}
	c := a.byKey[key].Load()
	if c == nil {
		made := a.vec.WithLabelValues(kmsg.NameForKey(key))
		c = &made
		a.byKey[key].Store(c)
	}
	(*c).Inc()
}

// reasonCounters bound the label values, in case somebody puts a client's bytes into a reason.
type reasonCounters struct {
	vec *prometheus.CounterVec

	mu   sync.Mutex
	seen map[string]bool
}

func (r *reasonCounters) inc(reason string) {
	r.mu.Lock()
	if !r.seen[reason] {
		if len(r.seen) >= maxReasons {
			reason = "other"
		} else {
			if r.seen == nil {
				r.seen = map[string]bool{}
			}
			r.seen[reason] = true
		}
	}
	r.mu.Unlock()
	r.vec.WithLabelValues(reason).Inc()
}
