package server

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

func TestPipelinedEcho(t *testing.T) {
	s := startServer(t, echo, Options{})
	c := s.dial(t)
	var frames [][]byte
	var bodies [][]byte
	for i := range int32(300) {
		bodies = append(bodies, bytes.Repeat([]byte{byte(i)}, rand.IntN(3000)))
		frames = append(frames, request(i, bodies[i]))
	}
	c.send(frames...)
	for i := range int32(300) {
		id, body := c.recv()
		if id != i || !bytes.Equal(body, bodies[i]) {
			t.Fatalf("reply %d has id %d and %d bytes, want %d bytes of request %d", i, id, len(body), len(bodies[i]), i)
		}
	}
}

func TestRepliesKeepOrderWhateverCompletesFirst(t *testing.T) {
	s := startServer(t, handlerFunc(func(r *Request) {
		b := response(r.CorrelationID, nil)
		switch rand.IntN(3) {
		case 0:
			r.ReplyBytes(b)
		default:
			time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, func() { r.ReplyBytes(b) })
		}
	}), Options{})
	c := s.dial(t)
	go func() {
		for i := range int32(1000) {
			if _, err := c.Write(request(i, make([]byte, i%50))); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	c.wantReplies(0, 999)
}

func TestShutdownLetsRepliesLeave(t *testing.T) {
	parked := make(chan *Request, 1)
	s := startServer(t, handlerFunc(func(r *Request) { parked <- r }), Options{})
	c := s.dial(t)
	c.send(request(1, nil))
	r := wait(t, "the request", parked)
	ctx := r.Context()
	ended := make(chan error)
	go func() { ended <- s.Shutdown(t.Context()) }()
	wait(t, "the context", ctx.Done())
	if context.Cause(ctx) != ErrStopping {
		t.Error("cause is", context.Cause(ctx))
	}
	r.ReplyBytes(response(1, nil))
	c.wantReplies(1, 1)
	c.wantEnd()
	if err := wait(t, "Shutdown", ended); err != nil {
		t.Error(err)
	}
}
