package throttle

import "math"

// Mode is how messages are counted.
type Mode uint8

const (
	// Approximate takes each batch for one message when it decides how much to read, and charges the messages that were
	// read. Batches of 6 at 10 a second: ten batches in one second, and nothing for the five that it takes to pay.
	Approximate Mode = iota
	// Precise counts the messages of each batch before it is read (preciseDispatcherFlowControl). Batches of 6 at 10 a
	// second: two, two, one.
	Precise
	// Batches counts batches as messages (dispatchThrottlingOnBatchMessageEnabled). Batches of 6 at 10 a second: ten every
	// second.
	Batches
)

func (m Mode) String() string { return [...]string{"approximate", "precise", "batches"}[m] }

// Plan decides which batches of a partition are dispatched: a prefix of what is there, a batch at a time, by what its path's counters
// have. No batch is split, and the last one may pass the line, which then is debt. A plan takes nothing; Path.Reserve does.
type Plan struct {
	// More is set when batches are left behind that could be dispatched: Add refused one, or the caller stopped by limits of its
	// own. A subscription that has more keeps its share of the counters for its next fetch.
	More bool

	cut     bool
	mode    Mode
	room    int32 // batches that may still be added
	left    Cost  // what the scarcest counters have
	counted Cost  // what was counted against left
	before  Cost  // counted without the last batch
	cost    Cost  // what will be charged
}

// Cost is a number of messages and one of bytes.
type Cost [2]int64

// Plus is the sum of two costs.
func (c Cost) Plus(d Cost) Cost { return Cost{c[0] + d[0], c[1] + d[1]} }

const (
	messages = 0
	bytes    = 1
)

// noLimit is what a unit has that no counter of the path counts.
const noLimit = math.MaxInt64

// Add tells whether the next batch may be dispatched too. records is what Visible gives, size its bytes on the wire.
func (p *Plan) Add(records, size int64) bool {
	if p.room == 0 || p.counted[messages] >= p.left[messages] || p.counted[bytes] >= p.left[bytes] {
		p.More, p.cut = true, true
		return false
	}
	p.room--
	p.before = p.counted
	count, charge := records, records
	switch p.mode {
	case Approximate:
		count = 1
	case Batches:
		count = min(records, 1)
		charge = count
	}
	p.counted[messages] += count
	p.counted[bytes] += size
	p.cost[messages] += charge
	p.cost[bytes] += size
	return true
}

// ByBatch tells whether batches are counted as messages.
func (p *Plan) ByBatch() bool { return p.mode == Batches }

// AddAll adds all of a list of batches if Add would, whatever each of them holds: it tells whether it has. n is the sum of what Visible gives for
// them or, where batches are counted as messages, of how many of them it gives anything for; size is that of their bytes. It guesses nothing, so the bound on
// approximate plans does not hold for it.
func (p *Plan) AddAll(n, size int64) bool {
	counted := p.counted.Plus(Cost{n, size})
	if counted[messages] >= p.left[messages] || counted[bytes] >= p.left[bytes] {
		return false
	}
	p.counted, p.cost = counted, p.cost.Plus(Cost{n, size})
	// Where the last batch begins is not known. All of it is there now, so it is taken only if all of it still is.
	p.before = Cost{max(0, counted[messages]-1), max(0, counted[bytes]-1)}
	return true
}

// Cost is what Reserve will take.
func (p *Plan) Cost() Cost { return p.cost }

// Cut tells whether Add refused a batch: there is more than may leave, and waiting for more data would be in vain.
func (p *Plan) Cut() bool { return p.cut }

// Visible is how many of a batch's records a fetch at an offset gives to the application, which is what it is charged: a fetch
// into the middle of a batch gets all of it, and drops what is below the offset. Control batches give none.
func Visible(records int32, lastOffset, fetchOffset int64, control bool) int64 {
	if control {
		return 0
	}
	return max(0, min(int64(records), lastOffset-fetchOffset+1))
}
