package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
)

// id names a record that was tried: the nth of a producer. It is the record's key.
type id struct{ producer, n int }

func (i id) key() []byte { return fmt.Appendf(nil, "%d/%d", i.producer, i.n) }

// parseID reads a key; ok is false for a key that no producer made.
func parseID(key []byte) (i id, ok bool) {
	_, err := fmt.Sscanf(string(key), "%d/%d", &i.producer, &i.n)
	return i, err == nil && string(i.key()) == string(key)
}

// digest stands for the bytes of a value.
type digest uint64

func digestOf(value []byte) digest {
	sum := sha256.Sum256(value)
	return digest(binary.BigEndian.Uint64(sum[:]))
}

// place is where a record lies.
type place struct {
	partition int32
	offset    int64
}

// attempt is what a producer handed over: the partition it chose and what the record holds.
type attempt struct {
	partition int32
	value     digest
}

// stored is a record as it was read.
type stored struct {
	place
	key   []byte
	value digest
}

// ledger is what the outside world knows: what was tried, what the broker acknowledged, what a consumer has seen. It
// only grows. Its methods may be called at the same time.
type ledger struct {
	mu        sync.Mutex
	attempted map[id]attempt
	acked     map[id]place
	seen      map[place]digest
	refused   []error // for records that the client gave up; there should be none
}

func newLedger() *ledger {
	return &ledger{attempted: map[id]attempt{}, acked: map[id]place{}, seen: map[place]digest{}}
}

// try notes a record before it is handed to the client.
func (l *ledger) try(i id, a attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempted[i] = a
}

// finish notes the client's word about a record.
func (l *ledger) finish(i id, at place, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused = append(l.refused, err)
		return
	}
	l.acked[i] = at
}

// see notes what a consumer was given.
func (l *ledger) see(at place, value digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[at] = value
}

// promises are what must be in the log from the moment of the copy on.
type promises struct {
	acked map[id]place
	seen  map[place]digest
}

func (l *ledger) promises() promises {
	l.mu.Lock()
	defer l.mu.Unlock()
	return promises{maps.Clone(l.acked), maps.Clone(l.seen)}
}

// faults counts what must not be.
type faults struct {
	lost        int // acknowledged, and nothing is at its offset
	altered     int // acknowledged, and another record or other bytes are at its offset
	duplicated  int // in the log a second time
	reordered   int // after a later record of the same producer and partition
	unattempted int // in the log, and never handed to a client for this partition with these bytes
	vanished    int // seen by a consumer, and gone or changed
	holes       int // an offset is missing between two records
}

// check compares the logs of the partitions, each from its first record on, with what was promised before they were read.
func (l *ledger) check(logs [][]stored, promised promises) (f faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := map[place]stored{}
	counts := map[id]int{}
	for _, log := range logs {
		l.checkOne(log, counts, &f)
		for _, r := range log {
			at[r.place] = r
		}
	}
	for i, where := range promised.acked {
		r, there := at[where]
		switch {
		case !there:
			f.lost++
		case string(r.key) != string(i.key()) || r.value != l.attempted[i].value:
			f.altered++
		}
	}
	for where, value := range promised.seen {
		if r, there := at[where]; !there || r.value != value {
			f.vanished++
		}
	}
	return f
}

// checkOne checks one partition's log by itself. counts has how often each record was met, in all partitions.
func (l *ledger) checkOne(log []stored, counts map[id]int, f *faults) {
	last := map[int]int{} // by producer
	for n, r := range log {
		if n > 0 && r.offset != log[n-1].offset+1 {
			f.holes++
		}
		i, ok := parseID(r.key)
		if tried, known := l.attempted[i]; !ok || !known || tried != (attempt{r.partition, r.value}) {
			f.unattempted++
			continue
		}
		if counts[i]++; counts[i] > 1 {
			f.duplicated++
		} else if before, any := last[i.producer]; any && before > i.n {
			f.reordered++
		}
		last[i.producer] = max(last[i.producer], i.n)
	}
}

// unacknowledged counts the records that were tried and not acknowledged.
func (l *ledger) unacknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.attempted) - len(l.acked)
}

// ends gives the ends of the logs when every record is acknowledged.
func (l *ledger) ends() offsets {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := offsets{}
	for _, at := range l.acked {
		ends[at.partition] = max(ends[at.partition], at.offset+1)
	}
	return ends
}
