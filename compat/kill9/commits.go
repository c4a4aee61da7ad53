package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// offsets are offsets of the partitions of the topic.
type offsets map[int32]int64

// commitBook is what the outside world knows of the commits of all groups: what was tried, what the broker acknowledged. It
// only grows. Its methods may be called at the same time.
type commitBook struct {
	mu     sync.Mutex
	life   int // of the broker: it grows with every kill
	groups map[string]*groupBook
	faults commitFaults
}

// groupBook is about one group.
type groupBook struct {
	acked offsets                  // the highest that was acknowledged
	tried map[int32]map[int64]bool // every offset that anybody tried to commit
	terms map[string]*term         // by who has one
	acks  int
}

// term is the newest generation, or member epoch, in which a commit was acknowledged.
type term struct {
	now    int32
	before int32 // in earlier lives of the broker
}

// commitFaults counts what must not be.
type commitFaults struct {
	lost   int // acknowledged, and the group is before it
	future int // committed, and nobody tried that
	back   int // acknowledged in a generation or member epoch before one of an earlier life
	again  int // a record was read after its commit had been acknowledged
}

func newCommitBook() *commitBook { return &commitBook{groups: map[string]*groupBook{}} }

func (b *commitBook) group(name string) *groupBook {
	g := b.groups[name]
	if g == nil {
		g = &groupBook{acked: offsets{}, tried: map[int32]map[int64]bool{}, terms: map[string]*term{}}
		b.groups[name] = g
	}
	return g
}

// killed begins another life of the broker. What was acknowledged before it is promised for all of it.
func (b *commitBook) killed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life++
	for _, g := range b.groups {
		for _, t := range g.terms {
			t.before = t.now
		}
	}
}

// try notes offsets before they are sent, and gives the life in which that is.
func (b *commitBook) try(group string, o offsets) (life int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.group(group)
	for p, offset := range o {
		if g.tried[p] == nil {
			g.tried[p] = map[int64]bool{}
		}
		g.tried[p][offset] = true
	}
	return b.life
}

// ack notes what was acknowledged of a commit that was tried in a life. who has the generation or member epoch: in the classic protocol
// the group, in the consumer protocol the member.
func (b *commitBook) ack(group, who string, number int32, life int, o offsets) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.group(group)
	g.acks++
	for p, offset := range o {
		g.acked[p] = max(g.acked[p], offset)
	}
	t := g.terms[who]
	if t == nil {
		t = &term{now: number, before: number}
		g.terms[who] = t
	}
	// The answer of an earlier life may be heard late.
	if life == b.life && number < t.before {
		b.faults.back++
	}
	t.now = max(t.now, number)
}

// read notes that a member was given a record.
func (b *commitBook) read(group string, partition int32, offset int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if offset < b.group(group).acked[partition] {
		b.faults.again++
	}
}

// promised gives what a group must have from now on.
func (b *commitBook) promised(group string) offsets {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.group(group).acked)
}

// check compares what the broker says that a group has committed with what had been promised before it was asked.
func (b *commitBook) check(group string, promised, got offsets) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, offset := range promised {
		if at, there := got[p]; !there || at < offset {
			b.faults.lost++
		}
	}
	for p, at := range got {
		if !b.group(group).tried[p][at] {
			b.faults.future++
		}
	}
}

// count gives the number of partitions for which a group has an acknowledged commit.
func (b *commitBook) count(group string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.group(group).acked)
}

func (b *commitBook) found() commitFaults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

// String counts the commits, and the generations and member epochs.
func (b *commitBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := "commits"
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		newest := int32(-1)
		for _, t := range b.groups[name].terms {
			newest = max(newest, t.now)
		}
		text += fmt.Sprintf(", %s: %d acknowledged, the last in generation %d", name, b.groups[name].acks, newest)
	}
	return text
}
