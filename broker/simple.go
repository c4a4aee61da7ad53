package broker

import (
	"slices"
	"sync/atomic"
	"time"
)

// Simple groups: their clients choose their partitions themselves (assign), and use a group for nothing but to keep offsets.
// That they fetch or commit offsets is all that tells of them.

const (
	// simpleTime is how long a group without members is remembered to read a partition after its last commit. Those who
	// commit with checkpoints may do so every few minutes.
	simpleTime = 15 * time.Minute
	// maxSimple bounds the groups remembered, over all partitions, at about 150 bytes each: a client makes one with each
	// commit to another group.
	maxSimple = 200_000
	// maxSimplePerPartition bounds those of one partition, all of which a look-up goes through.
	maxSimplePerPartition = 64
)

// simple is a group without members that uses a partition.
type simple struct {
	group string
	identity
	host string
	seen atomic.Int64 // stamp
	mark *mark        // offset alone is used
}

func (x *simple) current(now stamp) bool { return now-stamp(x.seen.Load()) < stamp(simpleTime) }

func (x *simple) is(groupID string, id identity, host string) bool {
	return x.group == groupID && x.identity == id && x.host == host
}

// noteSimple notes that a client which is no member fetched or committed the offset of a group. The one without a name, under which anybody may commit, tells
// nothing: it has no limit, and who uses it is to have that of its client id.
func (o *owners) noteSimple(groupID, topic string, partition int32, id identity, host string, offset int64, now stamp) {
	if groupID == "" || o.renewSimple(groupID, topic, partition, id, host, offset, now) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.obtain(topic, partition)
	if p == nil {
		return
	}
	before := len(p.simple)
	p.simple = slices.DeleteFunc(p.simple, func(x *simple) bool { return !x.current(now) || x.is(groupID, id, host) })
	if len(p.simple) == maxSimplePerPartition {
		p.simple = slices.Delete(p.simple, 0, 1)
	}
	if o.simples += len(p.simple) - before; o.simples >= maxSimple && !o.dropSimple(now) {
		return
	}
	x := &simple{group: groupID, identity: id, host: host, mark: newMark()}
	x.mark.offset.Store(offset)
	x.seen.Store(int64(now))
	p.simple = append(p.simple, x)
	o.simples++
	p.version = o.changes.Load() + 1
	o.changes.Add(1)
}

// renewSimple is the common case: the group is known.
func (o *owners) renewSimple(groupID, topic string, partition int32, id identity, host string, offset int64, now stamp) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	p := o.at(topic, partition)
	if p == nil {
		return false
	}
	for _, x := range p.simple {
		if x.is(groupID, id, host) && x.current(now) {
			x.mark.offset.Store(offset)
			x.seen.Store(int64(now))
			return true
		}
	}
	return false
}

// dropSimple forgets those whose time is over, and tells whether there is room now. The lock is held.
func (o *owners) dropSimple(now stamp) bool {
	o.simples = 0
	for _, all := range o.topics {
		for i := range all {
			all[i].simple = slices.DeleteFunc(all[i].simple, func(x *simple) bool { return !x.current(now) })
			o.simples += len(all[i].simple)
		}
	}
	return o.simples < maxSimple
}

// obtain is at for partitions that exist, known here or not. The lock is held.
func (o *owners) obtain(topic string, partition int32) *ownedPartition {
	if n := int(o.partitionsOf(topic)); n > len(o.topics[topic]) {
		o.topics[topic] = append(o.topics[topic], make([]ownedPartition, n-len(o.topics[topic]))...)
	}
	return o.at(topic, partition)
}
