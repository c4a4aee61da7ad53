package broker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/kproto"
)

const crashDir = "data"

// world runs a script of requests against a broker on a disk in memory, behind a real server whose connections are pipes, and keeps
// the book. All of it lives in a synctest bubble, so that nothing waits for a clock.
type world struct {
	t    testing.TB
	mem  *vfs.Mem
	fs   vfs.FS // mem behind in
	in   *vfs.Injector
	rng  *rand.Rand
	logs *logCount
	book *book
	// lenient takes any answer with a Kafka code, for scripts whose disk fails.
	lenient bool

	b    *Broker
	srv  *server.Server
	pipe *pipeListener
	c    *client
	spy  atomic.Pointer[spy]
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, mem: vfs.NewMem(), in: &vfs.Injector{}, logs: &logCount{}, book: &book{pages: newPages()}}
	w.fs = vfs.Inject(w.mem, w.in)
	t.Cleanup(func() {
		if w.b != nil { // the script failed
			_ = w.stop()
		}
	})
	return w
}

func crashOptions(fs vfs.FS, logs *logCount) Options {
	return Options{DataDir: crashDir, FS: fs, Advertise: "localhost:9092", Logger: slog.New(logs)}
}

// addAlien puts a partition directory on the disk that belongs to no topic.
func (w *world) addAlien() {
	dir := filepath.Join(crashDir, alienDir)
	_, err := vfs.MkdirAll(w.mem, dir, 0o700)
	check(w.t, err)
	check(w.t, vfs.WriteFileAtomic(w.mem, filepath.Join(dir, "partition.metadata"), []byte(alienMetadata), 0o600))
	check(w.t, w.mem.SyncDir(crashDir))
	check(w.t, w.mem.SyncDir("."))
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	w.book.alien = true
}

const (
	alienDir      = "alien-0"
	alienMetadata = "version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ\n"
)

// start starts the broker and notes what it tells.
func (w *world) start() error {
	b, err := Start(crashOptions(w.fs, w.logs))
	if err != nil {
		return err
	}
	w.told(b)
	w.b, w.pipe = b, newPipeListener()
	w.srv = server.New(b, server.Options{OnClose: b.ConnClosed})
	go func() { _ = w.srv.Serve(w.pipe) }()
	w.c = w.dial()
	w.spy.Store(newSpy(w))
	return nil
}

// told notes what a start tells.
func (w *world) told(b *Broker) {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	if c := w.book.cluster; c != "" && c != b.ClusterID() {
		w.t.Errorf("cluster %s became %s", c, b.ClusterID())
	}
	if b.Epoch() <= w.book.epoch {
		w.t.Errorf("epoch %d after %d", b.Epoch(), w.book.epoch)
	}
	w.book.cluster, w.book.epoch = b.ClusterID(), b.Epoch()
	w.book.unsure = false
}

func (w *world) mustStart() {
	w.t.Helper()
	check(w.t, w.start())
}

func (w *world) dial() *client {
	return &client{t: w.t, conn: w.pipe.dial()}
}

// stop stops the broker; an error says that the stop was not clean.
func (w *world) stop() error {
	w.spy.Swap(nil).stop()
	w.c.conn.Close()
	check(w.t, w.srv.Shutdown(context.Background()))
	err := w.b.Close(context.Background())
	w.b = nil
	return err
}

func (w *world) restart() {
	w.t.Helper()
	err := w.stop()
	if w.lenient {
		w.startSomehow()
		return
	}
	check(w.t, err)
	w.mustStart()
}

// startSomehow starts the broker; if the disk does not let it, after the disk was healed.
func (w *world) startSomehow() {
	w.t.Helper()
	if w.start() != nil {
		w.in.Heal()
		w.mustStart()
	}
}

// pipeListener gives net.Pipe's ends to a server.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// dial gives the client's end.
func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// logCount counts what a broker logs.
type logCount struct {
	mu       sync.Mutex
	errs     []string
	unknown  int // directories reported
	finished atomic.Bool
}

func (l *logCount) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *logCount) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logCount) WithGroup(string) slog.Handler                    { return l }

func (l *logCount) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.finished.Load():
	case r.Level >= slog.LevelError:
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
		l.errs = append(l.errs, text)
	case r.Message == "a partition directory belongs to no topic of the catalog; it is kept":
		l.unknown++
	}
	return nil
}

func (l *logCount) errors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs
}

func (l *logCount) reported() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unknown
}

// ok judges the code of an answer. Unless the disk fails every step of a script succeeds.
func (w *world) ok(what string, code int16) bool {
	w.t.Helper()
	switch {
	case code == 0:
		return true
	case code == kproto.UnknownServerError, !w.lenient:
		w.t.Fatalf("%s: code %d", what, code)
	}
	return false
}

// decided is ok for changes of the catalog.
func (w *world) decided(what string, code int16) bool {
	w.t.Helper()
	switch {
	case w.ok(what, code):
		w.book.unsure = false
		return true
	case code == kproto.KafkaStorageError:
		w.book.unsure = true
	}
	return false
}

// spec is a topic to make.
type spec struct {
	name       string
	partitions int32
	config     map[string]string
}

// create makes topics in one request.
func (w *world) create(specs ...spec) {
	w.t.Helper()
	q := kmsg.NewPtrCreateTopicsRequest()
	for _, s := range specs {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = s.name, s.partitions, 1
		for k, v := range s.config {
			rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: &v})
		}
		q.Topics = append(q.Topics, rt)
	}
	made := w.askToCreate(specs...)
	resp := do[*kmsg.CreateTopicsResponse](w.c, q, 7)
	w.book.answer(func(p *pages) {
		p.together = nil
		for i, x := range resp.Topics {
			if w.decided("create "+x.Topic, x.ErrorCode) {
				p.sure(x.Topic, made[i].index)
				made[i].id = x.TopicID
			}
		}
	})
	w.resolve()
}

func (w *world) askToCreate(specs ...spec) []*topicPage {
	made := make([]*topicPage, len(specs))
	w.book.ask(func(p *pages) {
		p.together = nil
		for i, s := range specs {
			if len(p.names[s.name]) == 0 {
				p.together = append(p.together, s.name)
			}
			made[i] = p.add(s.name, s.partitions, s.config)
		}
	})
	return made
}

// autoCreate makes a topic as a client does that asks for it.
func (w *world) autoCreate(name string) {
	w.t.Helper()
	made := w.askToCreate(spec{name, 1, nil})[0]
	q := kmsg.NewPtrMetadataRequest()
	q.AllowAutoTopicCreation = true
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	x := do[*kmsg.MetadataResponse](w.c, q, 12).Topics[0]
	w.book.answer(func(p *pages) {
		p.together = nil
		if w.decided("auto-create", x.ErrorCode) {
			p.sure(name, made.index)
			made.id = x.TopicID
		}
	})
	w.resolve()
}

func (w *world) deleteTopics(names ...string) {
	w.t.Helper()
	q := w.askToDelete(names...)
	w.deleted(do[*kmsg.DeleteTopicsResponse](w.c, q, 5))
	w.resolve()
}

func (w *world) askToDelete(names ...string) *kmsg.DeleteTopicsRequest {
	w.book.ask(func(p *pages) {
		for _, n := range names {
			p.maybe(n, absent)
		}
	})
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.TopicNames = names
	return q
}

func (w *world) deleted(resp *kmsg.DeleteTopicsResponse) {
	w.t.Helper()
	w.book.answer(func(p *pages) {
		for _, x := range resp.Topics {
			if w.decided("delete "+*x.Topic, x.ErrorCode) {
				p.gone(*x.Topic)
			}
		}
	})
}

func (w *world) addPartitions(name string, n int32) {
	w.t.Helper()
	page := w.current(name)
	if page == nil {
		return
	}
	w.book.ask(func(*pages) { page.grow(n); page.partitions.maybe(n) })
	q := kmsg.NewPtrCreatePartitionsRequest()
	q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: n}}
	x := do[*kmsg.CreatePartitionsResponse](w.c, q, 3).Topics[0]
	w.book.answer(func(*pages) {
		if w.decided("add partitions", x.ErrorCode) {
			page.partitions.sure(n)
		}
	})
	w.resolve()
}

// current is the page of the topic that has the name. In a script whose disk fails there may be none.
func (w *world) current(name string) *topicPage {
	w.t.Helper()
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	page := w.book.current(name)
	if page == nil && !w.lenient {
		w.t.Fatalf("the script names %s, which does not exist", name)
	}
	return page
}

// produce appends a batch and waits for the answer.
func (w *world) produce(name string, partition int32, records int) {
	w.t.Helper()
	if x := w.askToProduce(name, partition, records); x != nil {
		x.answered(do[*kmsg.ProduceResponse](w.c, x.q, 9))
	}
}

// producing is a Produce under way.
type producing struct {
	w    *world
	q    *kmsg.ProduceRequest
	part *partPage
	n    int
}

func (w *world) askToProduce(name string, partition int32, records int) *producing {
	w.t.Helper()
	page := w.current(name)
	if page == nil || int(partition) >= len(page.parts) {
		return nil
	}
	x := &producing{w: w, part: page.parts[partition], q: kmsg.NewPtrProduceRequest()}
	w.book.ask(func(*pages) {
		x.n = len(x.part.tries)
		x.part.tries = append(x.part.tries, try{records: records, base: -1})
	})
	b := kproto.NewBuilder(kproto.None)
	for i := range records {
		b.Add(kproto.Record{Timestamp: time.Now().UnixMilli(), Key: make([]byte, 200), Value: []byte(value(page.index, partition, x.n, i))})
	}
	x.q.Acks, x.q.TimeoutMillis = -1, 10_000
	x.q.Topics = []kmsg.ProduceRequestTopic{{Topic: name,
		Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: b.Batch()}}}}
	return x
}

func (x *producing) answered(resp *kmsg.ProduceResponse) {
	x.w.t.Helper()
	x.w.ok("produce", resp.Topics[0].Partitions[0].ErrorCode)
	x.maybeAnswered(resp)
}

// maybeAnswered is answered where the topic may have been deleted meanwhile.
func (x *producing) maybeAnswered(resp *kmsg.ProduceResponse) {
	r := resp.Topics[0].Partitions[0]
	x.w.book.answer(func(*pages) {
		if r.ErrorCode == 0 {
			x.part.tries[x.n].base = r.BaseOffset
		}
	})
}

func (w *world) deleteRecords(name string, partition int32, offset int64) {
	w.t.Helper()
	page := w.current(name)
	if page == nil || int(partition) >= len(page.parts) {
		return
	}
	part := page.parts[partition]
	w.book.ask(func(*pages) { part.tryStart = max(part.tryStart, offset) })
	q := kmsg.NewPtrDeleteRecordsRequest()
	q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name,
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
	x := do[*kmsg.DeleteRecordsResponse](w.c, q, 2).Topics[0].Partitions[0]
	w.book.answer(func(*pages) {
		if w.ok("delete records", x.ErrorCode) {
			part.start = max(part.start, x.LowWatermark)
		}
	})
}

func (w *world) initProducerID() {
	w.t.Helper()
	w.book.ask(func(*pages) {})
	q := kmsg.NewPtrInitProducerIDRequest()
	q.ProducerID, q.ProducerEpoch = -1, -1
	x := do[*kmsg.InitProducerIDResponse](w.c, q, 4)
	w.book.answer(func(p *pages) {
		if !w.decided("producer id", x.ErrorCode) {
			return
		}
		if x.ProducerID <= p.pid {
			w.t.Errorf("producer id %d after %d", x.ProducerID, p.pid)
		}
		p.pid = x.ProducerID
	})
}

// drainBlock uses up the block of producer ids, so that the next one needs a reservation.
func (w *world) drainBlock() {
	w.b.pids.mu.Lock()
	defer w.b.pids.mu.Unlock()
	w.b.pids.block.First += w.b.pids.block.N
	w.b.pids.block.N = 0
}

// resolve has the spy look at what became of a request that failed: what it sees must stay.
func (w *world) resolve() {
	if w.lenient {
		w.spy.Load().look()
	}
}
