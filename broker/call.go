package broker

import (
	"fmt"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/server"
	"sluice/kproto"
)

// call is one decoded request of an API that is not on the hot path.
type call struct {
	*server.Request
	b   *Broker
	row *row
}

// typed adapts a handler over kmsg's structs: it decodes with kproto.DecodeRequest (a bad body closes the connection) and
// gives the handler a call to answer, now or later.
func typed[Q kmsg.Request](fn func(b *Broker, c *call, q Q)) func(*Broker, *server.Request) {
	return func(b *Broker, r *server.Request) {
		q, err := kproto.DecodeRequest(r.Key, r.Version, r.Body)
		if err != nil {
			r.Abort(fmt.Sprintf("%s v%d: %v", kmsg.NameForKey(r.Key), r.Version, err))
			return
		}
		fn(b, &call{Request: r, b: b, row: rowOf(r.Key)}, q.(Q))
	}
}

// answer encodes and replies. Never blocks.
func (c *call) answer(resp kmsg.Response) {
	resp.SetVersion(c.Version)
	buf := kproto.AppendResponse(server.GetBuffer(smallReply), c.CorrelationID, resp)
	c.Reply(server.Reply{Parts: []server.Part{{Bytes: buf, Pool: true}}})
}

// smallReply is the capacity that answers start with, in bytes; most fit.
const smallReply = 1 << 10

// fail maps an error to Kafka's code and message, and counts it. nil gives 0 and nil.
func (c *call) fail(err error) (code int16, message *string) {
	if err == nil {
		return 0, nil
	}
	code, text := codeFor(err)
	c.b.metrics.failed(c.row, code)
	return code, &text
}

// code is fail for replies that have no field for a message.
func (c *call) code(err error) int16 {
	code, _ := c.fail(err)
	return code
}

// guard runs what a handler left for later. A panic there costs the connection and not the process.
func (c *call) guard(fn func()) {
	defer c.b.recovered(c.Request)
	fn()
}

// attempt runs a part of a request; a panic in it is that part's error.
func (c *call) attempt(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.b.panicked(c.Request, p)
			err = kproto.Errorf(kproto.UnknownServerError, "The server met an unexpected error; its log says more.")
		}
	}()
	return fn()
}

// recovered is deferred around everything a request runs: a panic closes the connection, since what the client was owed
// is unknown.
func (b *Broker) recovered(r *server.Request) {
	if p := recover(); p != nil {
		b.panicked(r, p)
		r.Abort("panic")
	}
}

// panicked counts and logs a panic, which is a defect.
func (b *Broker) panicked(r *server.Request, p any) {
	b.metrics.panics.Inc()
	b.logger.Error("a request panicked", "api", kmsg.NameForKey(r.Key), "version", r.Version, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}
