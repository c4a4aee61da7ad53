package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// book is what the script's client and the spy know: what was asked for, what was acknowledged, what was seen. It is written
// before a request is sent and after its answer has come.
type book struct {
	mu sync.Mutex
	pages
	moves   int // raised whenever something is asked for or answered
	pending int // requests without an answer
	// unsure says that a change of the catalog failed, and that nothing came after it in the catalog's log: it may still take effect.
	unsure bool
}

// inFlight tells whether something that was asked for may still happen. The lock is held.
func (b *book) inFlight() bool { return b.pending > 0 || b.unsure }

// ask notes what a request that is about to be sent may bring about.
func (b *book) ask(fn func(p *pages)) { b.turn(1, fn) }

// answer notes what its answer says.
func (b *book) answer(fn func(p *pages)) { b.turn(-1, fn) }

func (b *book) turn(pending int, fn func(p *pages)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moves++
	b.pending += pending
	fn(&b.pages)
}

// read gives the pages as they are now.
func (b *book) read() *pages {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clone()
}

// pages are promises: every disk that a power cut leaves must hold them.
type pages struct {
	cluster string // "" before it was told
	epoch   int32  // the largest told, -1 before
	pid     int64  // the largest given out, -1 before
	topics  []*topicPage
	names   map[string]possible[int]    // the index in topics, or absent
	brokers map[string]possible[string] // by name of the broker resource
	alien   bool                        // the directory has a partition that nobody knows; it must stay
	// together are topics of one request that is not answered: all of them are there, or none.
	together []string
}

// absent is the state of a name that no topic has.
const absent = -1

func newPages() pages {
	return pages{epoch: -1, pid: -1, names: map[string]possible[int]{},
		brokers: map[string]possible[string]{"": {""}, "1": {""}}}
}

// topicPage is one incarnation of a topic.
type topicPage struct {
	index      int
	name       string
	id         kproto.TopicID // zero before it was told
	partitions possible[int32]
	config     possible[string] // as written by canonical
	parts      []*partPage
}

// partPage is one partition of it.
type partPage struct {
	tries    []try
	seen     map[int64]string // values that a consumer has read, by offset
	high     int64            // the largest high watermark told
	start    int64            // acknowledged or told
	tryStart int64            // the largest asked for
}

// try is one Produce of one batch.
type try struct {
	records int
	base    int64 // -1 before it was acknowledged
}

// possible are the values that something may have. The last one was asked for last.
type possible[T comparable] []T

func (p *possible[T]) maybe(v T) {
	others := slices.DeleteFunc(slices.Clone(*p), func(x T) bool { return x == v })
	*p = append(others, v)
}

func (p *possible[T]) sure(v T) { *p = possible[T]{v} }

// saw notes an observation. While a request is under way only what it asked for is final: it can happen once.
func (p *possible[T]) saw(v T, pending bool) {
	if !pending || len(*p) > 0 && (*p)[len(*p)-1] == v {
		p.sure(v)
	}
}

func (p possible[T]) has(v T) bool { return slices.Contains(p, v) }

func (p *pages) clone() *pages {
	c := *p
	c.topics = make([]*topicPage, len(p.topics))
	for i, t := range p.topics {
		c.topics[i] = t.clone()
	}
	c.names, c.brokers = maps.Clone(p.names), maps.Clone(p.brokers)
	return &c
}

func (t *topicPage) clone() *topicPage {
	c := *t
	c.parts = make([]*partPage, len(t.parts))
	for i, p := range t.parts {
		cp := *p
		cp.tries, cp.seen = slices.Clone(p.tries), maps.Clone(p.seen)
		c.parts[i] = &cp
	}
	return &c
}

// add begins a page for a topic to be made.
func (p *pages) add(name string, partitions int32, config map[string]string) *topicPage {
	t := &topicPage{index: len(p.topics), name: name}
	t.config.sure(canonical(config))
	p.topics = append(p.topics, t)
	if len(p.names[name]) == 0 {
		p.names[name] = possible[int]{absent}
	}
	t.grow(partitions)
	t.partitions.sure(partitions)
	p.maybe(name, t.index)
	return t
}

func (t *topicPage) grow(partitions int32) {
	for int(partitions) > len(t.parts) {
		t.parts = append(t.parts, &partPage{seen: map[int64]string{}})
	}
}

func (p *pages) maybe(name string, index int) {
	s := p.names[name]
	s.maybe(index)
	p.names[name] = s
}

func (p *pages) sure(name string, index int) { p.names[name] = possible[int]{index} }

// gone says that a deletion was acknowledged: of the topics with the name only those can be there that were asked for after it.
func (p *pages) gone(name string) {
	set := p.names[name]
	if i := slices.Index(set, absent); i >= 0 {
		p.names[name] = slices.Clone(set[i:])
	}
}

func (p *pages) saw(name string, index int, pending bool) {
	s := p.names[name]
	s.saw(index, pending)
	p.names[name] = s
}

// current is the topic that has the name, nil when that is not certain.
func (p *pages) current(name string) *topicPage {
	if s := p.names[name]; len(s) == 1 && s[0] != absent {
		return p.topics[s[0]]
	}
	return nil
}

// identify finds the page of a topic that was met, and notes its id. nil: there cannot be such a topic.
func (p *pages) identify(name string, id kproto.TopicID) *topicPage {
	for _, t := range p.topics {
		if t.id == id {
			return t
		}
	}
	for _, i := range p.names[name] {
		if i != absent && p.topics[i].id.IsZero() {
			p.topics[i].id = id
			return p.topics[i]
		}
	}
	return nil
}

// config lets fn change what is noted of a resource's config; not of a topic that is not certain to be there.
func (p *pages) config(typ kmsg.ConfigResourceType, name string, fn func(*possible[string])) {
	if typ == kmsg.ConfigResourceTypeBroker {
		s := p.brokers[name]
		fn(&s)
		p.brokers[name] = s
	} else if page := p.current(name); page != nil {
		fn(&page.config)
	}
}

// canonical writes a config.
func canonical(config map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&b, "%s=%s;", k, config[k])
	}
	return b.String()
}

// value is what record i of try n says: whose it is.
func value(topic int, partition int32, n, i int) string {
	return fmt.Sprintf("%d/%d/%d/%d", topic, partition, n, i)
}

func parseValue(v string) (topic int, partition int32, n, i int, err error) {
	_, err = fmt.Sscanf(v, "%d/%d/%d/%d", &topic, &partition, &n, &i)
	return
}
