package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/coord"
	"sluice/internal/machine"
	"sluice/kproto"
)

var (
	errGroupID         = kproto.Errorf(kproto.InvalidGroupID, "The group id is empty.")
	errGroupIDNotFound = kproto.Errorf(kproto.GroupIDNotFound, "There is no such group.")
	errNoGroup         = kproto.Errorf(kproto.InvalidRequest, "The group id is empty.")
	errNoProtocol      = kproto.Errorf(kproto.InconsistentGroupProtocol, "The request names no protocol.")
	errNotOffered      = kproto.Errorf(kproto.UnsupportedVersion, "The consumer protocol is not among group.coordinator.rebalance.protocols.")
	errGroupTwice      = kproto.Errorf(kproto.InvalidRequest, "The group is named twice in one request.")
)

// checkGroupID is for requests of members. The group "" may only commit offsets, for the oldest clients. What a group may
// grow to is the machine's to say; that its strings fit in its records, the decoder of requests sees to.
func checkGroupID(id string) error {
	if id == "" {
		return errGroupID
	}
	return nil
}

// checkConsumerGroup is checkGroupID for heartbeats of the consumer protocol, which may be turned off. Kafka has another code here.
func (c *call) checkConsumerGroup(id string) error {
	switch {
	case !c.b.config().Groups.ConsumerProtocol:
		return errNotOffered
	case id == "":
		return errNoGroup
	}
	return nil
}

// groupError makes of a failure below what a group's client can act on: to look for the coordinator again and retry.
// Kafka answers a failed append to a group's log so, too.
func groupError(err error) error {
	switch code, _ := codeFor(err); {
	case errors.Is(err, coord.ErrPanic):
		return err
	case code == kproto.KafkaStorageError, errors.Is(err, coord.ErrClosed):
		return kproto.Errorf(kproto.NotCoordinator, "The group's log cannot be written to.")
	case code == kproto.NotController, code == kproto.RequestTimedOut, errors.Is(err, context.Canceled):
		return kproto.Errorf(kproto.CoordinatorNotAvailable, "The group's coordinator is not available.")
	}
	return err
}

// toGroup hands an event to a group and runs done with what came of it. done must not wait.
func (c *call) toGroup(groupID string, ev machine.Event, done func(value any, err error)) {
	c.b.groups.do(groupID, ev, func(value any, err error) {
		if err != nil {
			err = groupError(err)
		}
		c.guard(func() { done(value, err) })
	})
}

// askGroup is toGroup for requests that a machine answers whole. refuse makes the answer that carries an error.
func (c *call) askGroup(groupID string, ev machine.Event, refuse func(code int16) kmsg.Response) {
	c.toGroup(groupID, ev, func(value any, err error) { c.answerOf(value, err, refuse) })
}

// awaitGroup is askGroup for requests that may wait for other members. Nobody waits any more once the client has hung up
// or the broker stops; what the group answers then is dropped.
func (c *call) awaitGroup(groupID string, ev machine.Event, refuse func(code int16) kmsg.Response) {
	var answered atomic.Bool
	stop := context.AfterFunc(c.Context(), func() {
		if answered.CompareAndSwap(false, true) {
			c.guard(func() { c.answer(refuse(kproto.NotCoordinator)) })
		}
	})
	c.toGroup(groupID, ev, func(value any, err error) {
		if answered.CompareAndSwap(false, true) {
			stop()
			c.answerOf(value, err, refuse)
		}
	})
}

func (c *call) answerOf(value any, err error, refuse func(code int16) kmsg.Response) {
	if err != nil {
		c.answer(refuse(c.code(err)))
		return
	}
	resp := value.(kmsg.Response)
	c.b.metrics.groups.answered(resp)
	if code := topLevelCode(resp); code != kproto.NoError {
		c.b.metrics.failed(c.row, code)
	}
	c.answer(resp)
}

func topLevelCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.SyncGroupResponse:
		return r.ErrorCode
	case *kmsg.HeartbeatResponse:
		return r.ErrorCode
	case *kmsg.LeaveGroupResponse:
		return r.ErrorCode
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return r.ErrorCode
	}
	return kproto.NoError
}

// groupClient is who asks, in Kafka's form.
func (c *call) groupClient() group.Client {
	s := c.conn()
	return group.Client{ID: c.ClientID, Host: s.host, Software: s.software}
}

// conn is the state of the request's connection. It must be called before the handler returns.
func (c *call) conn() *connState { return c.b.resolver.connOf(c.Request) }

// each asks several groups at once, what event gives for the i-th. set takes the answers, one at a time, and done runs
// once all have come. A group that is named twice is refused, since an answer can be large.
func each(c *call, groupIDs []string, event func(i int) machine.Event, set func(i int, v any, err error), done func()) {
	var mu sync.Mutex // one set at a time
	var left atomic.Int64
	left.Store(int64(len(groupIDs)) + 1)
	finish := func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
	answered := func(i int, v any, err error) {
		func() {
			mu.Lock()
			defer mu.Unlock()
			set(i, v, err)
		}()
		finish()
	}
	seen := make(map[string]bool, len(groupIDs))
	for i, id := range groupIDs {
		if seen[id] {
			answered(i, nil, errGroupTwice)
			continue
		}
		seen[id] = true
		c.toGroup(id, event(i), func(v any, err error) { answered(i, v, err) })
	}
	finish()
}

// countCodes counts the errors that a machine answered.
func (c *call) countCodes(codes []*int16) {
	for _, code := range codes {
		if *code != kproto.NoError {
			c.b.metrics.failed(c.row, *code)
		}
	}
}
