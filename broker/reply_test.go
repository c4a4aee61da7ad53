package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sluice/internal/coord"
	"sluice/kproto"
	"sluice/log"
)

func TestCodeFor(t *testing.T) {
	for _, x := range []struct {
		err  error
		code int16
	}{
		{nil, 0},
		{kproto.Errorf(kproto.InvalidTopic, "x"), 17},
		{fmt.Errorf("wrapped: %w", kproto.Errorf(kproto.InvalidTopic, "x")), 17},
		{log.ErrOffsetOutOfRange, 1},
		{log.ErrTooLarge, 18},
		{log.ErrOutOfOrderSequence, 45},
		{log.ErrInvalidProducerEpoch, 47},
		{log.ErrDeleted, 3},
		{log.ErrDamaged, 56},
		{log.ErrOffline, 56},
		{log.ErrNotDurable, 56},
		{log.ErrStorage, 56},
		{log.ErrClosed, 6},
		{coord.ErrNotDurable, 56},
		{coord.ErrClosed, 41},
		{coord.ErrPanic, -1},
		{context.DeadlineExceeded, 7},
		{context.Canceled, 7},
		{errors.New("nobody knows me"), -1},
	} {
		if x.err != nil && x.code > 0 {
			x.err = fmt.Errorf("read partition 3: %w", x.err)
		}
		code, text := codeFor(x.err)
		if code != x.code || (text == "") != (x.err == nil) {
			t.Errorf("%v: %d %q, want %d", x.err, code, text, x.code)
		}
	}
	// What nobody mapped may say what the client should not know.
	if _, text := codeFor(errors.New("/secret/path")); text != "The server met an unexpected error; its log says more." {
		t.Errorf("text of an unmapped error: %q", text)
	}
}

func TestOnceErrors(t *testing.T) {
	var o onceErrors
	if !o.first(errors.New("a")) || o.first(errors.New("a")) || !o.first(errors.New("b")) {
		t.Error("an error is not new exactly once")
	}
	for i := range 2 * maxUnmapped {
		o.first(fmt.Errorf("%d", i))
	}
	if len(o.seen) > maxUnmapped {
		t.Errorf("%d errors are remembered", len(o.seen))
	}
}
