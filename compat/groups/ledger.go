package main

import (
	"fmt"
	"sync"
)

// ledger is what the outside world knows of one topic and one group that reads it: what was written, who read what, and
// which commits were acknowledged. The nth record of a partition says so in its value. Its methods may be called at the
// same time.
type ledger struct {
	mu         sync.Mutex
	partitions []partition
	faults     faults
}

type partition struct {
	written   int64          // records that were acknowledged to the writer
	readers   map[int64]bool // the offsets that were read
	committed int64          // the newest offset of which somebody knows that it is committed
	owner     string         // who read the newest line since the last mark
}

// faults says what must not be; empty is good.
type faults struct {
	strange []string // a record that was never written so
	again   []string // a record that had been committed was read
	future  []string // an offset was committed that nobody had come to
}

func newLedger(partitions int) *ledger {
	l := &ledger{partitions: make([]partition, partitions)}
	for p := range l.partitions {
		l.partitions[p].readers = map[int64]bool{}
	}
	return l
}

// valueOf is what the record at a place holds.
func valueOf(partition int32, offset int64) string { return fmt.Sprintf("%d/%d", partition, offset) }

func (l *ledger) wrote(partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.partitions[partition]
	p.written = max(p.written, offset+1)
}

// at gives a partition that a member names, or notes that there is none.
func (l *ledger) at(who string, n int32) *partition {
	if n < 0 || int(n) >= len(l.partitions) {
		l.faults.strange = append(l.faults.strange, fmt.Sprintf("%s names partition %d", who, n))
		return &partition{readers: map[int64]bool{}}
	}
	return &l.partitions[n]
}

func (l *ledger) read(who string, n int32, offset int64, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.at(who, n)
	if value != valueOf(n, offset) {
		l.faults.strange = append(l.faults.strange, fmt.Sprintf("%s read %q at %d/%d", who, value, n, offset))
	}
	if offset < p.committed {
		l.faults.again = append(l.faults.again, fmt.Sprintf("%s read %d/%d, and %d was committed", who, n, offset, p.committed))
	}
	p.readers[offset] = true
	p.owner = who
}

func (l *ledger) commit(who string, n int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.at(who, n)
	if offset > 0 && !p.readers[offset-1] {
		l.faults.future = append(l.faults.future, fmt.Sprintf("%s committed %d/%d, and nobody had read that far", who, n, offset))
	}
	p.committed = max(p.committed, offset)
}

// mark forgets who read what: from now on it shows who reads.
func (l *ledger) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.partitions {
		l.partitions[p].owner = ""
	}
}

// owners gives who read each partition last; "" when nobody has since the mark.
func (l *ledger) owners() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	owners := map[string]bool{}
	for _, p := range l.partitions {
		owners[p.owner] = true
	}
	return owners
}

// unread counts the records that were written and that nobody has read.
func (l *ledger) unread() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.partitions {
		for offset := range p.written {
			if !p.readers[offset] {
				n++
			}
		}
	}
	return n
}

// ends gives the end of each partition.
func (l *ledger) ends() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := make([]int64, len(l.partitions))
	for p := range l.partitions {
		ends[p] = l.partitions[p].written
	}
	return ends
}

func (l *ledger) found() faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults
}
