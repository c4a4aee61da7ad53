package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// rig is a broker's data path behind a real server on TCP, over a file system in memory. Its topics are put in by hand:
// there is no catalog.
type rig struct {
	t    testing.TB
	b    *Broker
	addr string
	gate syncGate
	ids  uint32

	server *server.Server
}

// rigEpoch is the leader epoch of a rig's broker: not 0, so that zero values show.
const rigEpoch = 3

func newRig(t testing.TB, static map[string]string) *rig {
	return newRigWith(t, Options{Static: static})
}

func newRigWith(t testing.TB, o Options) *rig {
	r := openRigWith(t, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	r.addr = l.Addr().String()
	r.serve(l)
	return r
}

// openRig is newRig without the server.
func openRig(t testing.TB, static map[string]string) *rig {
	return openRigWith(t, Options{Static: static})
}

func openRigWith(t testing.TB, o Options) *rig {
	r := &rig{t: t}
	o.DataDir = "data"
	b, err := newBroker(o)
	check(t, err)
	r.gate.FS = vfs.NewMem()
	check(t, r.gate.Mkdir("data", 0o700))
	b.dir, err = log.Open("data", log.Options{FS: &r.gate, OpenFiles: o.OpenFiles})
	check(t, err)
	b.epoch = rigEpoch
	b.dir.SetEpoch(rigEpoch)
	b.topics = newTopics(b.dir, b.dispatch)
	b.ready.Store(true)
	r.b = b
	return r
}

func (r *rig) serve(l net.Listener) {
	s := server.New(r.b, server.Options{OnClose: r.b.ConnClosed})
	r.server = s
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	r.t.Cleanup(func() {
		r.gate.open()
		check(r.t, s.Shutdown(context.Background()))
		<-done
		r.b.dispatch.close()
		check(r.t, r.b.dir.Close(context.Background()))
	})
}

// topic makes a topic known.
func (r *rig) topic(name string, partitions int32, settings map[string]string) *topic {
	r.ids++
	c := catalog.Topic{Name: name, Partitions: partitions, Config: settings}
	binary.BigEndian.PutUint32(c.ID[12:], r.ids)
	conf, lc, err := r.b.settings.Load().topic(c)
	check(r.t, err)
	r.b.topics.put(c, conf, lc)
	return r.b.topics.byName(name)
}

// drop deletes a topic as the broker does: first from the registry, then its logs.
func (r *rig) drop(x *topic) {
	r.b.topics.remove(x.id)
	for _, l := range x.close() {
		check(r.t, r.b.dir.Delete(l))
	}
}

// fill appends n batches of one record each through the log.
func (r *rig) fill(l *log.Log, n, size int) {
	r.t.Helper()
	for range n {
		a, err := l.Append(recordBatch(1, size), log.AppendOptions{})
		check(r.t, err)
		check(r.t, a.Ticket.Wait(context.Background()))
	}
}

// recordBatch makes a batch of n records with values of the size given.
func recordBatch(n, size int) kproto.Batch {
	b := kproto.NewBuilder(kproto.None)
	for range n {
		b.Add(kproto.Record{Timestamp: time.Now().UnixMilli(), Value: make([]byte, size)})
	}
	return b.Batch()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wire is a client's connection.
type wire struct {
	t    testing.TB
	conn net.Conn
	corr int32
	id   string // client id; "test" if empty
}

func (r *rig) dial() *wire {
	c, err := net.Dial("tcp", r.addr)
	check(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	check(r.t, c.SetDeadline(time.Now().Add(5*ioTimeout)))
	return &wire{t: r.t, conn: c}
}

// send writes a request and gives its correlation id.
func (w *wire) send(version int16, q kmsg.Request) int32 {
	w.t.Helper()
	q.SetVersion(version)
	w.corr++
	_, err := w.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(cmp.Or(w.id, "test"))).AppendRequest(nil, q, w.corr))
	check(w.t, err)
	return w.corr
}

// receive reads the answer to a request sent with send.
func (w *wire) receive(q kmsg.Request) kmsg.Response {
	w.t.Helper()
	resp, err := w.read(q)
	check(w.t, err)
	return resp
}

func (w *wire) read(q kmsg.Request) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, frame); err != nil {
		return nil, err
	}
	resp := q.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() {
		if body[0] != 0 {
			w.t.Fatalf("%d tags in the response header", body[0])
		}
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// do sends a request and reads its answer.
func (w *wire) do(version int16, q kmsg.Request) kmsg.Response {
	w.t.Helper()
	w.send(version, q)
	return w.receive(q)
}

// closed checks that the server closes the connection instead of answering.
func (w *wire) closed(q kmsg.Request) {
	w.t.Helper()
	if resp, err := w.read(q); err == nil {
		w.t.Fatalf("answered: %+v", resp)
	}
}

// syncGate is a file system whose Sync of files waits while the gate is shut.
type syncGate struct {
	vfs.FS
	shut atomic.Pointer[chan struct{}]
}

func (g *syncGate) close() {
	c := make(chan struct{})
	g.shut.Store(&c)
}

func (g *syncGate) open() {
	if c := g.shut.Swap(nil); c != nil {
		close(*c)
	}
}

func (g *syncGate) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := g.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

type gatedFile struct {
	vfs.File
	gate *syncGate
}

func (f *gatedFile) Sync() error {
	if c := f.gate.shut.Load(); c != nil {
		<-*c
	}
	return f.File.Sync()
}

// tee is receive that also keeps the frame.
func (w *wire) tee(raw *bytes.Buffer, q kmsg.Request) kmsg.Response {
	w.t.Helper()
	conn := w.conn
	defer func() { w.conn = conn }()
	w.conn = teeConn{conn, io.TeeReader(conn, raw)}
	return w.receive(q)
}

type teeConn struct {
	net.Conn
	r io.Reader
}

func (c teeConn) Read(b []byte) (int, error) { return c.r.Read(b) }

// answers reads a frame and gives its correlation id.
func (w *wire) answers() int32 {
	w.t.Helper()
	var head [8]byte
	_, err := io.ReadFull(w.conn, head[:])
	check(w.t, err)
	_, err = io.CopyN(io.Discard, w.conn, int64(binary.BigEndian.Uint32(head[:]))-4)
	check(w.t, err)
	return int32(binary.BigEndian.Uint32(head[4:]))
}

// sendCut sends a whole frame whose body lacks its last n bytes.
func (w *wire) sendCut(version int16, q kmsg.Request, n int) {
	w.t.Helper()
	q.SetVersion(version)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)
	frame = frame[:len(frame)-n]
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_, err := w.conn.Write(frame)
	check(w.t, err)
}

// waitFor waits until cond holds; how long is no measure.
func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(ioTimeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// internalAppend appends what a client may not.
var internalAppend = log.AppendOptions{Internal: true}

// parseFetchBody is parseFetch for a body without a connection.
func parseFetchBody(b *Broker, version int16, body []byte) (*fetchCall, []forgottenPart, bool) {
	return parseFetch(b, &server.Request{RequestHeader: kproto.RequestHeader{Version: version}, Body: body})
}
