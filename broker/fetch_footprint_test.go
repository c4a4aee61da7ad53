package broker

import (
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"sluice/throttle"
)

// What a limit of the broker costs while everybody waits for it, in bytes for each partition that each group reads: a claim and its places in the crowd, and a
// wait in the fetch. The collector leaves as much again before it runs.
const maxFootprint = 240

// maxWaiting is what it takes without a limit: what was asked, the watch, and whose it is. What a look finds, 112 bytes, is not kept.
const maxWaiting = 580

func TestFootprintOfALimit(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		b.b.resolver.hint = func() *regexp.Regexp { return regexp.MustCompile("(.*)") } // the client id is the group
		x := b.topic("t", 2000, nil)
		b.backlog(x, 1, 1, 10)
		b.waiting(x, 1) // what the groups have without limits and without fetches
		free := b.waiting(x, 1)
		b.limit(throttle.Settings{Broker: throttle.Policy{Messages: throttle.PerPeriod(1), Period: time.Hour}, Mode: throttle.Precise})
		b.dial("first").do(12, fetchOf(at(x, 0, 0))) // takes all there is
		limited := b.waiting(x, 0)
		t.Logf("%d bytes for each partition and group, %d without a limit", limited, free)
		if free > maxWaiting {
			t.Errorf("a partition that is waited for takes %d bytes, want %d at most", free, maxWaiting)
		}
		if limited-free > maxFootprint {
			t.Errorf("a limit costs %d bytes, want %d at most", limited-free, maxFootprint)
		}
	})
}

// waiting is what fetches of all partitions by ten groups from an offset on, of which none has an answer, take, in bytes for each partition and group.
func (b *bubble) waiting(x *topic, from int64) int64 {
	const groups = 10
	var parts []want
	for i := range x.partitions() {
		parts = append(parts, at(x, int32(i), from))
	}
	q := fetchOf(parts...)
	q.MaxWaitMillis = 60_000
	before := heapInUse()
	for g := range groups {
		b.dial("g"+strconv.Itoa(g)).send(12, q)
	}
	synctest.Wait()
	after := heapInUse()
	time.Sleep(2 * time.Minute)
	return (after - before) / int64(groups*len(parts))
}

// A fetch of ten thousand partitions may have one of these for each, and ten such fetches look at the moment in which a window begins.
func TestSizesForManyPartitions(t *testing.T) {
	for name, size := range map[string][2]uintptr{
		"part":      {unsafe.Sizeof(fetchPart{}), 96},
		"allowance": {unsafe.Sizeof(allowance{}), 96},
		"draft":     {unsafe.Sizeof(draft{}), 112},
		"watch":     {unsafe.Sizeof(watch{}), 48},
	} {
		if size[0] > size[1] {
			t.Errorf("a %s takes %d bytes, want %d at most", name, size[0], size[1])
		}
	}
}

// What stands in for a group has one string for all partitions that a connection reads.
func TestStandInIsOneString(t *testing.T) {
	c := &connState{}
	first := c.marked("client:a/b")
	if again := c.marked("client:" + "a/b"); again != "\x00client:a/b" || unsafe.StringData(again) != unsafe.StringData(first) {
		t.Errorf("%q is another string than %q", again, first)
	}
	if other := c.marked("shared"); other != "\x00shared" {
		t.Errorf("%q", other)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the second empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
