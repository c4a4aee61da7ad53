package broker

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/server"
	"sluice/kproto"
)

// call is one decoded request of an API that is not on the hot path. Once answered, the Request belongs to the server
// again; answer and abort see to it that this happens once.
type call struct {
	*server.Request
	b    *Broker
	row  *row
	done atomic.Bool // answered or aborted

	mutations time.Duration // how long the client is to be held for changing topics; quota_mutations.go
}

// typed adapts a handler over kmsg's structs: it decodes with kproto.DecodeRequest (a bad body closes the connection) and
// gives the handler a call to answer, now or later.
func typed[Q kmsg.Request](fn func(b *Broker, c *call, q Q)) func(*Broker, *server.Request) {
	return func(b *Broker, r *server.Request) {
		q, err := kproto.DecodeRequest(r.Key, r.Version, r.Body)
		if err != nil {
			r.Abort(fmt.Sprintf("%s v%d: %v", rowOf(r.Key).name, r.Version, err))
			return
		}
		c := &call{Request: r, b: b, row: rowOf(r.Key)}
		c.guard(func() { fn(b, c, q.(Q)) })
	}
}

// answer encodes and replies. Never blocks.
func (c *call) answer(resp kmsg.Response) {
	resp.SetVersion(c.Version)
	c.meter(resp)
	buf := kproto.AppendResponse(server.GetBuffer(smallReply), c.CorrelationID, resp)
	if c.done.CompareAndSwap(false, true) {
		c.Reply(server.Reply{Parts: []server.Part{{Bytes: buf, Pool: true}}})
	}
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

// guard runs a part of the handling. A panic there closes the connection, since what the client was owed is unknown, and
// not the process.
func (c *call) guard(fn func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		c.b.panicked(c.row, p)
		if c.done.CompareAndSwap(false, true) {
			c.Abort("panic")
		}
	}()
	fn()
}

// attempt runs one of several parts of a request; a panic in it is that part's error.
func (c *call) attempt(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.b.panicked(c.row, p)
			err = kproto.Errorf(kproto.UnknownServerError, "The server met an unexpected error; its log says more.")
		}
	}()
	return fn()
}

// recovered is deferred around what runs for a request that has no call. The request must not have been completed
// before the panic; then the connection is closed. (Handlers made by typed see to themselves.)
func (b *Broker) recovered(r *server.Request) {
	if p := recover(); p != nil {
		b.panicked(rowOf(r.Key), p)
		r.Abort("panic")
	}
}

// panicked counts and logs a panic, which is a defect.
func (b *Broker) panicked(r *row, p any) {
	b.metrics.panics.Inc()
	b.logger.Error("a request panicked", "api", r.name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}
