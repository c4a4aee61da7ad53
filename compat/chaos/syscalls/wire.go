package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// replyTime is how long a reply may take before the broker counts as hung.
const replyTime = time.Minute

// maxReply bounds what is read of one reply, in bytes.
const maxReply = 16 << 20

// errHung is a reply that did not come although the connection is open.
var errHung = errors.New("no reply: the broker hangs")

// conn is a connection that speaks Kafka's protocol and nothing more: no retries, no metadata, no other connection behind it.
type conn struct {
	net.Conn
	next int32 // correlation id
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, replyTime)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &conn{Conn: c}, nil
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("syscalls"))

// all sends the requests in one write and reads their replies.
func (c *conn) all(requests ...kmsg.Request) ([]kmsg.Response, error) {
	var out []byte
	first := c.next
	for _, r := range requests {
		out = append(out, formatter.AppendRequest(nil, r, c.next)...) // it writes the length at the front of its buffer
		c.next++
	}
	if err := c.SetDeadline(time.Now().Add(replyTime)); err != nil {
		return nil, err
	}
	if _, err := c.Write(out); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	replies := make([]kmsg.Response, 0, len(requests))
	for i, r := range requests {
		reply, err := c.reply(r, first+int32(i))
		if err != nil {
			return replies, fmt.Errorf("%s: %w", kmsg.NameForKey(r.Key()), err)
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// one is all with one request.
func one[R kmsg.Response](c *conn, r kmsg.Request) (R, error) {
	replies, err := c.all(r)
	if err != nil {
		var none R
		return none, err
	}
	return replies[0].(R), nil
}

func (c *conn) reply(r kmsg.Request, id int32) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, readError(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxReply {
		return nil, fmt.Errorf("reply of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, readError(err)
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != id {
		return nil, fmt.Errorf("reply to request %d where %d was expected", got, id)
	}
	body = body[4:]
	reply := r.ResponseKind()
	reply.SetVersion(r.GetVersion())
	if reply.IsFlexible() { // the header's tags; ApiVersions, which has none, is not asked here
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("reply header with tags")
		}
		body = body[1:]
	}
	if err := reply.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("reply of %s: %w", kmsg.NameForKey(r.Key()), err)
	}
	return reply, nil
}

func readError(err error) error {
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		return errHung
	}
	return fmt.Errorf("receive: %w", err)
}
