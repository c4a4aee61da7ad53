package broker

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/catalog"
	"sluice/config"
	"sluice/kproto"
	"sluice/log"
	"sluice/throttle"
)

// topics is what the data path knows: only what is durable in the catalog (fed by follow.go). Lookups are safe from any
// goroutine and cheap. The catalog's own log is not in it.
type topics struct {
	dir      *log.Dir
	dispatch *dispatch // nil: no topic has limits

	mu         sync.RWMutex // guards the fields below; never held while a topic's lock is taken
	names      map[string]*topic
	ids        map[kproto.TopicID]*topic
	sorted     []*topic // by name; nil when it must be made again; never changed in place
	partitions int      // of all topics
}

func newTopics(dir *log.Dir, d *dispatch) *topics {
	return &topics{dir: dir, dispatch: d, names: map[string]*topic{}, ids: map[kproto.TopicID]*topic{}}
}

// byName gives nil for an unknown topic.
func (t *topics) byName(name string) *topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.names[name]
}

// byNameBytes is byName without allocating.
func (t *topics) byNameBytes(name []byte) *topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.names[string(name)]
}

// byID gives nil for an unknown id.
func (t *topics) byID(id kproto.TopicID) *topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ids[id]
}

// each visits the topics in order of name until fn returns false.
func (t *topics) each(fn func(*topic) bool) {
	for _, x := range t.list() {
		if !fn(x) {
			return
		}
	}
}

// list is all topics in order of name. The slice is shared: it must not be changed.
func (t *topics) list() []*topic {
	t.mu.RLock()
	s := t.sorted
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sorted == nil {
		t.sorted = make([]*topic, 0, len(t.names))
		for _, x := range t.names {
			t.sorted = append(t.sorted, x)
		}
		slices.SortFunc(t.sorted, func(a, b *topic) int { return cmp.Compare(a.name, b.name) })
	}
	return t.sorted
}

// count is how many topics there are, and partitions of all of them.
func (t *topics) count() (topics, partitions int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.names), t.partitions
}

// put makes a topic known, or brings a known one to its new value.
func (t *topics) put(c catalog.Topic, conf *config.Topic, lc *log.Config) {
	t.mu.Lock()
	x := t.ids[c.ID]
	known := int32(0)
	if x == nil {
		x = &topic{name: c.Name, id: c.ID, internal: c.Internal, dir: t.dir, limits: t.dispatch.throttled(c.Name, c.Internal)}
		x.state.Store(&topicState{raw: c, config: conf, log: lc})
	} else {
		known = x.partitions()
	}
	t.partitions += int(c.Partitions - known)
	t.mu.Unlock()

	// Before others can find it, so that they find it whole.
	x.set(&topicState{raw: c, config: conf, log: lc})

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names[c.Name] != x {
		t.names[c.Name], t.ids[c.ID], t.sorted = x, x, nil
	}
}

// remove forgets a topic and gives it back, nil when it is unknown.
func (t *topics) remove(id kproto.TopicID) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.ids[id]
	if x == nil {
		return nil
	}
	t.partitions -= int(x.partitions())
	delete(t.ids, id)
	if t.names[x.name] == x {
		delete(t.names, x.name)
	}
	t.sorted = nil
	t.dispatch.forget(x)
	return x
}

// topic is one topic of the data path. Its pointer is the topic's identity: a re-created topic is another one.
type topic struct {
	name     string
	id       kproto.TopicID
	internal bool
	dir      *log.Dir
	limits   *throttle.Topic // of dispatch; nil for internal topics, which have none
	state    atomic.Pointer[topicState]

	mu   sync.RWMutex // guards the fields below
	logs []*log.Log   // one a partition; nil until it is first used, so that many partitions cost little
	gone bool         // deleted: no log is made any more

	unbooked bool // deleted: no wait is booked to it any more; guarded by fetchWaits.mu
}

// topicState is the part of a topic that changes, always as a whole.
type topicState struct {
	raw    catalog.Topic
	config *config.Topic
	log    *log.Config
}

func (t *topic) partitions() int32     { return t.state.Load().raw.Partitions }
func (t *topic) config() *config.Topic { return t.state.Load().config }
func (t *topic) raw() catalog.Topic    { return t.state.Load().raw }

// partitionNumbers are 0 to the last one.
func (t *topic) partitionNumbers() []int32 {
	all := make([]int32, t.partitions())
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// partition gives nil when there is no such partition (any more).
func (t *topic) partition(i int32) *log.Log {
	if l := t.used(i); l != nil {
		return l
	}
	return t.open(i)
}

// used gives the log of a partition if this run has it already. One that it does not have holds nothing: Start opens
// every partition that has files.
func (t *topic) used(i int32) *log.Log {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if i < 0 || int(i) >= len(t.logs) || t.gone {
		return nil
	}
	return t.logs[i]
}

// open makes the log of a partition that was not used before in this run.
func (t *topic) open(i int32) *log.Log {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i < 0 || int(i) >= len(t.logs) || t.gone {
		return nil
	}
	if t.logs[i] == nil {
		t.logs[i] = t.dir.Log(t.name, t.id, i, t.state.Load().log)
	}
	return t.logs[i]
}

// set brings the topic and the logs that exist to a new state. Partitions are only ever added.
func (t *topic) set(s *topicState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.state.Swap(s)
	if n := int(s.raw.Partitions); n > len(t.logs) {
		t.logs = append(t.logs, make([]*log.Log, n-len(t.logs))...)
	}
	if old.log == s.log {
		return
	}
	for _, l := range t.logs {
		if l != nil {
			l.SetConfig(s.log)
		}
	}
}

// close ends the use of the topic and gives the logs that were made.
func (t *topic) close() []*log.Log {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	return slices.DeleteFunc(t.logs, func(l *log.Log) bool { return l == nil })
}
