package server

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// muting answers and then mutes for so long.
func muting(d time.Duration, handled *atomic.Int32) Handler {
	return handlerFunc(func(r *Request) {
		handled.Add(1)
		r.Conn.Mute(d)
		r.ReplyBytes(response(r.CorrelationID, nil))
	})
}

// A client that goes away while it is muted is noticed, whether it ends in order or breaks off with something that nobody will read.
func TestMutedClientGoesAway(t *testing.T) {
	for name, leave := range map[string]func(c *testClient){
		"in order": func(c *testClient) { c.Close() },
		"reset": func(c *testClient) {
			c.send(request(2, nil))
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var handled atomic.Int32
			closed := make(chan *Conn, 1)
			s := startServer(t, muting(time.Hour, &handled), Options{OnClose: func(c *Conn) { closed <- c }})
			c := s.dial(t)
			c.send(request(1, nil))
			c.wantReplies(1, 1)
			leave(c)
			if gone := wait(t, "the connection ends", closed); gone.MutedFor() < time.Minute {
				t.Errorf("the mute of the connection that ended has %v to go", gone.MutedFor())
			}
			if n := handled.Load(); n != 1 {
				t.Errorf("%d requests were handled", n)
			}
		})
	}
}

// What a client sent before it ended its side is handled after the mute, and it gets its answers.
func TestMutedClientHasSentMore(t *testing.T) {
	var handled atomic.Int32
	s := startServer(t, muting(muteLook+muteLook/2, &handled), Options{})
	c := s.dial(t)
	c.send(request(1, nil))
	c.wantReplies(1, 1)
	c.send(request(2, nil))
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.wantReplies(2, 2)
	c.wantEnd()
}

// A muted connection is no reason to wait at the end.
func TestShutdownWhileMuted(t *testing.T) {
	var handled atomic.Int32
	s := startServer(t, muting(time.Hour, &handled), Options{})
	c := s.dial(t)
	c.send(request(1, nil))
	c.wantReplies(1, 1)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	if err := wait(t, "the server stops", done); err != nil {
		t.Error(err)
	}
	c.wantEnd()
}

// Each write is told of.
func TestOnWrite(t *testing.T) {
	told := make(chan time.Duration, 10)
	s := startServer(t, handlerFunc(func(r *Request) {
		r.Conn.OnWrite(func(d time.Duration) { told <- d })
		r.ReplyBytes(response(r.CorrelationID, nil))
	}), Options{})
	c := s.dial(t)
	c.send(request(1, nil))
	c.wantReplies(1, 1)
	if d := wait(t, "a write", told); d <= 0 {
		t.Errorf("a write took %v", d)
	}
}
