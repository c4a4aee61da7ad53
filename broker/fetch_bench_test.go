package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// BenchmarkFetch is the broker's own part of a Fetch of a MB: the plan and the answer, without the connection and the sending of the file, of a backlog on the
// real disk. So it tells what limits that never bind add, which is too little to be seen in the CPU time of a process that sends.
func BenchmarkFetch(b *testing.B) {
	const never = "1000000000000000"
	six := map[string]string{}
	for _, level := range []string{"dispatch.throttling.rate.in.", "dispatch.throttling.rate.per.topic.in.", "dispatch.throttling.rate.per.subscription.in."} {
		six[level+"msg"], six[level+"byte"] = never, never
	}
	with := func(key string) map[string]string {
		all := map[string]string{key: "true"}
		for k, v := range six {
			all[k] = v
		}
		return all
	}
	modes := []struct {
		name   string
		static map[string]string
	}{
		{"no limits", nil},
		{"six limits", six},
		{"six, precise", with("dispatch.throttling.precise.flow.control")},
		{"six, batches counted", with("dispatch.throttling.on.batch.message.enabled")},
	}
	for _, size := range []int{1000, 100_000} {
		for _, m := range modes {
			b.Run(fmt.Sprintf("%d/%s", size, m.name), func(b *testing.B) {
				fetch := newFetchPath(b, m.static, size)
				b.ReportAllocs()
				for b.Loop() {
					fetch()
				}
			})
		}
	}
}

// newFetchPath gives a function that does what the handler does for a fetch into a backlog of batches of a record, each time of the next MB.
func newFetchPath(b *testing.B, static map[string]string, size int) func() {
	const backlog, fetched = 32 << 20, 1 << 20
	broker, err := newBroker(Options{Static: static})
	check(b, err)
	broker.dir, err = log.Open(b.TempDir(), log.Options{FS: vfs.Disk{}})
	check(b, err)
	b.Cleanup(func() {
		broker.dispatch.close()
		check(b, broker.dir.Close(context.Background()))
	})
	broker.topics = newTopics(broker.dir, broker.dispatch)
	broker.limitsChanged(nil)
	r := rig{t: b, b: broker}
	x := r.topic("a", 1, map[string]string{"sluice.durability": "os", "segment.bytes": "1073741824"})
	broker.limitsChanged(x)
	batch := recordBatch(1, size)
	for n := 0; n < backlog; n += len(batch) {
		_, err := x.partition(0).Append(batch, log.AppendOptions{})
		check(b, err)
	}
	conn := &connState{host: "/127.0.0.1", identity: identity{"bench", anonymous}}
	next := int64(0)
	return func() {
		q := fetchOf(at(x, 0, next))
		q.SetVersion(12)
		f, _, ok := parseFetch(broker, &server.Request{RequestHeader: kproto.RequestHeader{Version: 12}, Body: q.AppendTo(nil), Received: time.Now()})
		if !ok {
			b.Fatal("malformed")
		}
		f.conn, f.who = conn, conn.identity
		if !f.resolve() || !f.plan(true) {
			b.Fatal("nothing to wait for")
		}
		if p := &f.parts[0]; p.rng.Len < fetched/2 || (p.draft() != nil) != (static != nil) {
			b.Fatalf("%d bytes, error %d, limits apply: %v", p.rng.Len, p.code, p.draft() != nil)
		}
		if next = f.parts[0].rng.Next; next+int64(2*fetched/size) > int64(backlog/len(batch)) {
			next = 0
		}
		f.choose()
		f.noteRead()
		f.answered()
		a := fetchAnswer{fetchCall: f, w: wireWriter{b: server.GetBuffer(f.headerSize()), flex: true}}
		a.write()
		f.draw()
		a.reply().Done(server.SentAll)
	}
}
