package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/kproto"
)

// node is a broker behind a real server on a real socket, over a file system in memory.
type node struct {
	*Broker
	t    *testing.T
	opts Options
	srv  *server.Server
	addr string
	logs *logBook

	inBubble bool
	pipe     *pipeListener // in a bubble, where a socket would keep the clock from going on
}

func startNode(t *testing.T, static map[string]string) *node {
	t.Helper()
	return startNodeOn(t, vfs.NewMem(), static)
}

func startNodeOn(t *testing.T, fs vfs.FS, static map[string]string) *node {
	t.Helper()
	return runNode(&node{t: t, logs: &logBook{}, opts: Options{DataDir: "/data", FS: fs, Static: static}})
}

// startNodeInBubble is startNode for a test that waits for timers: within synctest.Test they cost nothing, and no machine is too slow for them.
func startNodeInBubble(t *testing.T, static map[string]string) *node {
	t.Helper()
	return runNode(&node{t: t, logs: &logBook{}, opts: Options{DataDir: "/data", FS: vfs.NewMem(), Static: static}, inBubble: true})
}

func runNode(n *node) *node {
	n.t.Helper()
	n.opts.Logger = slog.New(slog.NewTextHandler(n.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	n.start()
	n.t.Cleanup(func() {
		n.stop()
		if n.logs.contains("level=ERROR") {
			n.t.Errorf("the broker logged errors:\n%s", n.logs)
		}
	})
	return n
}

func (n *node) start() {
	n.t.Helper()
	b, err := Start(n.opts)
	if err != nil {
		n.t.Fatal(err)
	}
	l := n.listen()
	n.Broker, n.addr = b, l.Addr().String()
	srv := server.New(b, server.Options{Logger: n.opts.Logger, OnClose: b.ConnClosed})
	n.srv = srv
	go func() { _ = srv.Serve(l) }()
}

func (n *node) listen() net.Listener {
	n.t.Helper()
	if n.inBubble {
		n.pipe = newPipeListener()
		return n.pipe
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(n.t, err)
	return l
}

func (n *node) stop() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	if err := n.srv.Shutdown(ctx); err != nil {
		n.t.Error(err)
	}
	if err := n.Close(ctx); err != nil {
		n.t.Error(err)
	}
}

// powerCut loses what was not synced, and starts again from what is left.
func (n *node) powerCut() {
	n.t.Helper()
	disk := n.opts.FS.(*vfs.Mem)
	left := disk.Crash(vfs.Prefix(0))
	disk.PowerOff()
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	_ = n.srv.Shutdown(ctx)
	_ = n.Close(ctx) // fails: the disk is gone
	n.logs.forget()
	n.opts.FS = left
	n.start()
}

func (n *node) restart() {
	n.t.Helper()
	n.stop()
	n.start()
}

// logBook keeps what the broker logs.
type logBook struct {
	mu   sync.Mutex
	text []byte
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (l *logBook) contains(s string) bool { return strings.Contains(l.String(), s) }

// client is one connection that speaks in kmsg's structs.
type client struct {
	t    testing.TB
	conn net.Conn
	corr int32
}

// ioTimeout ends a test that would hang; nothing is measured by it.
const ioTimeout = time.Minute

func (n *node) dial() *client {
	n.t.Helper()
	if n.inBubble {
		return &client{t: n.t, conn: n.pipe.dial()}
	}
	c, err := net.Dial("tcp", n.addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	return &client{t: n.t, conn: c}
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))

// send writes a request in a version and gives its correlation id.
func (c *client) send(req kmsg.Request, version int16) {
	c.t.Helper()
	req.SetVersion(version)
	c.corr++
	if err := c.write(formatter.AppendRequest(nil, req, c.corr)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) write(b []byte) error {
	_ = c.conn.SetDeadline(time.Now().Add(ioTimeout))
	_, err := c.conn.Write(b)
	return err
}

// read gives the next frame without its size; io.EOF (or a reset) when the broker hung up.
func (c *client) read() ([]byte, error) {
	_ = c.conn.SetDeadline(time.Now().Add(ioTimeout))
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.conn, b)
	return b, err
}

// try sends a request and reads its answer; an error means that the broker hung up.
func (c *client) try(req kmsg.Request, version int16) (kmsg.Response, error) {
	c.t.Helper()
	c.send(req, version)
	return c.receive(req, version)
}

// receive reads the answer to the request that was sent last.
func (c *client) receive(req kmsg.Request, version int16) (kmsg.Response, error) {
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != c.corr {
		return nil, fmt.Errorf("correlation id %d, want %d", got, c.corr)
	}
	b = b[4:]
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if resp.IsFlexible() && resp.Key() != apiVersionsKey {
		if len(b) == 0 || b[0] != 0 {
			return nil, fmt.Errorf("%T v%d: response header without an empty tag section", resp, version)
		}
		b = b[1:]
	}
	return resp, resp.ReadFrom(b)
}

// do is try for requests that must be answered.
func do[R kmsg.Response](c *client, req kmsg.Request, version int16) R {
	c.t.Helper()
	resp, err := c.try(req, version)
	if err != nil {
		c.t.Fatalf("%T v%d: %v", req, version, err)
	}
	return resp.(R)
}

// answer reads the answer to the request that was sent last.
func answer[R kmsg.Response](c *client, req kmsg.Request, version int16) R {
	c.t.Helper()
	resp, err := c.receive(req, version)
	if err != nil {
		c.t.Fatalf("%T v%d: %v", req, version, err)
	}
	return resp.(R)
}

// forget drops what was logged, for a test that caused an error on purpose.
func (l *logBook) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = nil
}

// produce appends one record with acks=all.
func (c *client) produce(topic string, partition int32, value string) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	b := kproto.NewBuilder(kproto.None)
	b.Add(kproto.Record{Timestamp: time.Now().UnixMilli(), Key: []byte("k"), Value: []byte(value)})
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, b.Batch()
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return do[*kmsg.ProduceResponse](c, req, 9).Topics[0].Partitions[0]
}
