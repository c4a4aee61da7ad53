// Package broker is the Kafka API over the rooms below it: one file per API (NN_name.go, NN the key), table.go with
// one row per API, park.go as the only place where a request waits for data. It owns no durable state.
package broker

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/config"
	"sluice/internal/coord"
	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// SEAM FILE: what the API files build on. Real homes: broker.go (Broker, Start, Close), topics.go (registry), table.go (rows, dispatch), reply.go.

// Options of a broker.
type Options struct {
	DataDir   string
	FS        vfs.FS
	Static    map[string]string // settings of file, environment and --set, merged and validated
	Advertise string            // host:port told to clients; "" means the address each connection reached
	Logger    *slog.Logger
}

// Broker implements server.Handler.
type Broker struct {
	opts    Options
	dir     *log.Dir
	catalog *coord.Shard
	topics  *topics
	epoch   int32 // leader epoch of every partition in this life (Dir.SetEpoch gets the same); what current_leader_epoch is compared with

	fetchSessions fetchSessions // fetch_session.go; the zero value is ready
}

// NodeID is the only node's and the controller's id.
const NodeID = 1

// Start recovers the data directory, replays the catalog and raises the epoch; the broker may then be given to a server.
func Start(o Options) (*Broker, error) { panic("seam") }

func (b *Broker) config() *config.Broker { panic("seam") }

// topics is what the data path knows: only what is durable in the catalog (fed by orders). Lookups are safe from any goroutine and cheap.
type topics struct{}

func (t *topics) byName(name string) *topic      { panic("seam") } // nil: unknown
func (t *topics) byNameBytes(name []byte) *topic { panic("seam") } // without allocating
func (t *topics) byID(id kproto.TopicID) *topic  { panic("seam") }
func (t *topics) each(fn func(*topic) bool)      { panic("seam") } // in order of name

// topic is one topic of the data path. Its pointer is the topic's identity: a re-created topic is another one.
type topic struct {
	name     string
	id       kproto.TopicID
	internal bool
}

func (t *topic) partitions() int32          { panic("seam") }
func (t *topic) partition(i int32) *log.Log { panic("seam") } // nil: no such partition
func (t *topic) config() *config.Topic      { panic("seam") }
func (t *topic) raw() catalog.Topic         { panic("seam") }

// row is everything the broker states about one API: dispatch, ApiVersions, limits and (later) throttle class and ACL read it.
type row struct {
	key      int16
	name     string
	min, max int16 // advertised
	accept   int16 // lowest version accepted, where it differs from min (Produce: 3)
	class    throttleClass
	acl      string // what authorization the API needs, as in docs/apis.md
	handle   func(b *Broker, r *server.Request)
}

type throttleClass uint8

const (
	classNone throttleClass = iota
	classProduce
	classFetch
	classRequest  // request time
	classMutation // controller mutations
)

// typed adapts a handler over kmsg's structs: it decodes with kproto.DecodeRequest (a bad body aborts the connection), recovers panics
// (logged, counted, connection closed) and gives the handler a call to answer, now or later.
func typed[Q kmsg.Request](fn func(b *Broker, c *call, q Q)) func(*Broker, *server.Request) {
	panic("seam")
}

// call is one decoded request of an API that is not on the hot path.
type call struct{ *server.Request }

// answer encodes and replies. Never blocks.
func (c *call) answer(resp kmsg.Response) { panic("seam") }

// codeFor maps an error of the rooms below to Kafka's code and message; an unmapped one is logged once and is -1.
func codeFor(err error) (int16, string) { panic("seam") }
