package main

import (
	"maps"
	"slices"
)

// world is what the broker may say after a kill: what was acknowledged, and for what was in flight, either way.
type world struct {
	cluster string
	pids    map[int64]bool // every producer id that was given out
	names   map[string][]version
	batches int // ever made
}

func newWorld() *world {
	return &world{pids: map[int64]bool{}, names: map[string][]version{}}
}

// version is one thing that the catalog may say of a topic's name.
type version struct {
	topic      *topic // nil: there is no such topic
	partitions int
	configs    map[string]string // those that were set
}

// topic is one incarnation of a name.
type topic struct {
	name  string
	id    [16]byte // zero: the reply that told it was never read
	parts []*partition
}

// partition is everything that was sent to one.
type partition struct {
	batches []*batch // in the order sent
	starts  []int64  // offsets that the log may begin at
	nextSeq int32
	stuck   bool // an idempotent batch was refused to the end: none may follow it
}

func newTopic(name string) *topic { return &topic{name: name} }

// part gives partition p, which need not exist on the broker.
func (t *topic) part(p int) *partition {
	for len(t.parts) <= p {
		t.parts = append(t.parts, &partition{starts: []int64{0}})
	}
	return t.parts[p]
}

// change says that a request which does this to the name is in flight. The function it returns says that it was acknowledged; without it, both what
// was before and what comes after may be found.
func (w *world) change(name string, do func(version) version) (acknowledged func()) {
	before := w.names[name]
	if before == nil {
		before = []version{{}}
	}
	var after []version
	for _, v := range before {
		v.configs = maps.Clone(v.configs)
		after = append(after, do(v))
	}
	w.names[name] = slices.Concat(before, after)
	return func() { w.names[name] = after }
}

// current is the name's last incarnation that was surely made, with its surely made partitions.
func (w *world) current(name string) (*topic, int) {
	versions := w.names[name]
	if len(versions) == 0 {
		return nil, 0
	}
	t, n := versions[0].topic, versions[0].partitions
	for _, v := range versions {
		if v.topic == nil || v.topic != t {
			return nil, 0
		}
		n = min(n, v.partitions)
	}
	return t, n
}

// add makes the next batch of a partition; pid -1 is a plain one.
func (w *world) add(p *partition, pid int64, epoch int16, fill func(*batch)) *batch {
	b := &batch{id: w.batches, pid: pid, epoch: epoch, seq: -1}
	w.batches++
	fill(b)
	if pid >= 0 {
		b.seq = p.nextSeq
		p.nextSeq += int32(len(b.values))
	}
	p.batches = append(p.batches, b)
	return b
}

// pending are the idempotent batches of a partition whose fate the producer does not know.
func (p *partition) pending() []*batch {
	return slices.DeleteFunc(slices.Clone(p.batches), func(b *batch) bool { return b.acked || !b.sent || b.pid < 0 })
}

// holds tells whether there are acknowledged records above the start.
func (p *partition) holds() bool {
	return slices.ContainsFunc(p.batches, func(b *batch) bool { return b.acked && b.end() > p.starts[len(p.starts)-1] })
}
