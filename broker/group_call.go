package broker

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/coord"
	"sluice/internal/machine"
	"sluice/kproto"
)

// maxGroupString is the most bytes of what a group's records keep as a string: Kafka gives their length two bytes. What
// else a group may grow to is the machine's to say.
const maxGroupString = math.MaxInt16

var (
	errGroupID         = kproto.Errorf(kproto.InvalidGroupID, "The group id is empty, or longer than %d bytes.", maxGroupString)
	errGroupIDNotFound = kproto.Errorf(kproto.GroupIDNotFound, "There is no such group.")
	errGroupTwice      = kproto.Errorf(kproto.InvalidRequest, "The group is named twice in one request.")
	errGroupString     = kproto.Errorf(kproto.InvalidRequest, "A name in the request is longer than %d bytes.", maxGroupString)
	errOffsetMetadata  = kproto.Errorf(kproto.OffsetMetadataTooLarge, "The metadata of an offset is longer than %d bytes.", maxGroupString)
)

// checkGroupID is for requests that need a group with a name.
func checkGroupID(id string) error {
	if id == "" || len(id) > maxGroupString {
		return errGroupID
	}
	return nil
}

// checkOldGroupID is for requests that may name the group "", which only commits offsets, as in the oldest clients.
func checkOldGroupID(id string) error {
	if len(id) > maxGroupString {
		return errGroupID
	}
	return nil
}

func checkGroupStrings(texts ...*string) error {
	for _, s := range texts {
		if s != nil && len(*s) > maxGroupString {
			return errGroupString
		}
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
	c.toGroup(groupID, ev, func(value any, err error) {
		if err != nil {
			c.answer(refuse(c.code(err)))
			return
		}
		resp := value.(kmsg.Response)
		if code := topLevelCode(resp); code != kproto.NoError {
			c.b.metrics.failed(c.row, code)
		}
		c.answer(resp)
	})
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
	return group.Client{ID: c.ClientID, Host: "/" + c.remoteHost()}
}

// each asks about several groups at once. event checks the i-th and makes what is asked, set takes its answer and is
// called for one after the other, and done runs once all have answered.
func each(c *call, groupIDs []string, event func(i int) (any, error), set func(i int, v any, err error), done func()) {
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
		ev, err := event(i)
		if err == nil && seen[id] {
			err = errGroupTwice
		}
		if seen[id] = true; err != nil {
			answered(i, nil, err)
			continue
		}
		c.toGroup(id, ev, func(v any, err error) { answered(i, v, err) })
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
