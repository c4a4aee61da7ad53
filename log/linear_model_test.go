package log

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

type linearKind uint8

const (
	linearAppend  linearKind = iota // of a batch with the id, which is there once however often it is sent
	linearOffsets                   // log start and high watermark
	linearRead                      // from an offset, below a limit
	linearFind                      // the first record of a time or later, below a limit
	linearNewest                    // the record of the latest time, below a limit
	linearDelete                    // DeleteRecords
)

// linearOp is what a client asks for.
type linearOp struct {
	kind          linearKind
	id            recordID
	offset, limit int64
	time          int64
}

// changes tells whether the operation changes the log.
func (o linearOp) changes() bool { return o.kind == linearAppend || o.kind == linearDelete }

// linearAnswer is what it is told.
type linearAnswer struct {
	unknown     bool // it was told nothing: the power was off. base is where an append was written
	refused     bool // an error that says that nothing has happened
	base        int64
	start, high int64
	ids         []byte // two for each record
}

// recordID names a record.
type recordID uint16

func linearID(client int, n uint16) recordID { return recordID(n*linearClients + uint16(client) + 1) }

// linearTimes bounds the records' timestamps, which are in no order.
const linearTimes = 64

func (id recordID) time() int64 { return int64(id*40503>>4) % linearTimes }

// linearLog is the log as the specification has it. It is comparable.
type linearLog struct {
	start int64
	ids   string // two bytes for each record
}

func (l linearLog) len() int64 { return int64(len(l.ids) / 2) }

func (l linearLog) at(offset int64) recordID {
	return recordID(l.ids[2*offset]) | recordID(l.ids[2*offset+1])<<8
}

func (l linearLog) find(id recordID) int64 {
	for i := range l.len() {
		if l.at(i) == id {
			return i
		}
	}
	return -1
}

// linearModel is the specification.
var linearModel = (&porcupine.NondeterministicModel{
	Init:              func() []any { return []any{linearLog{}} },
	DescribeOperation: describeLinear,
	Step: func(state, input, output any) []any {
		l, in, out := state.(linearLog), input.(linearOp), output.(*linearAnswer)
		if out.unknown {
			return l.maybe(in, out)
		}
		next, ok := l.step(in, out)
		if !ok {
			return nil
		}
		return []any{next}
	},
}).ToModel()

// maybe are the logs that an operation without an answer may leave.
func (l linearLog) maybe(in linearOp, out *linearAnswer) []any {
	next := l
	switch {
	case in.kind == linearAppend && l.find(in.id) < 0 && out.base == l.len():
		next = l.append(in.id)
	case in.kind == linearDelete && in.offset <= l.len():
		next.start = max(l.start, in.offset)
	}
	if next == l {
		return []any{l}
	}
	return []any{l, next}
}

func (l linearLog) append(id recordID) linearLog {
	return linearLog{l.start, l.ids + string([]byte{byte(id), byte(id >> 8)})}
}

// step tells whether the answer is that of the log, and gives the log afterwards.
func (l linearLog) step(in linearOp, out *linearAnswer) (linearLog, bool) {
	switch in.kind {
	case linearAppend:
		return l.stepAppend(in, out)
	case linearOffsets:
		return l, out.start == l.start && out.high == l.len()
	case linearRead:
		return l, l.reads(in, out)
	case linearFind:
		return l, out.base == l.best(in.limit, func(id, best recordID) bool { return best == 0 && id.time() >= in.time })
	case linearNewest:
		return l, out.base == l.best(in.limit, func(id, best recordID) bool { return best == 0 || id.time() > best.time() })
	}
	if out.refused {
		return l, in.offset > l.len()
	}
	l.start = max(l.start, in.offset)
	return l, out.start == l.start && in.offset <= l.len()
}

func (l linearLog) stepAppend(in linearOp, out *linearAnswer) (linearLog, bool) {
	at := l.find(in.id)
	switch {
	case out.refused:
		return l, true
	case at >= 0:
		return l, out.base == at
	}
	return l.append(in.id), out.base == l.len()
}

// reads: whole batches from the offset on, at least one if there is any; where a segment ends is nobody's business.
func (l linearLog) reads(in linearOp, out *linearAnswer) bool {
	if out.refused {
		return in.offset < l.start || in.offset > in.limit || in.limit > l.len()
	}
	if in.offset < l.start || in.offset > in.limit || in.limit > l.len() {
		return false
	}
	return (len(out.ids) > 0) == (in.offset < in.limit) && strings.HasPrefix(l.ids[2*in.offset:2*in.limit], string(out.ids))
}

// best is the last record below the limit that is better than the best before it.
func (l linearLog) best(limit int64, better func(id, best recordID) bool) int64 {
	at, best := int64(-1), recordID(0)
	for i := l.start; i < min(limit, l.len()); i++ {
		if id := l.at(i); better(id, best) {
			at, best = i, id
		}
	}
	return at
}

func describeLinear(input, output any) string {
	in, out := input.(linearOp), output.(*linearAnswer)
	what := fmt.Sprintf("%s %+v", [...]string{"append", "offsets", "read", "find", "newest", "delete"}[in.kind], in)
	return fmt.Sprintf("%s -> %+v", what, *out)
}
