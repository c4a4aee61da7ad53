package broker

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
)

func (c *client) initProducer(version int16, txnID *string, timeout int32, id int64, epoch int16) *kmsg.InitProducerIDResponse {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = txnID, timeout
	req.ProducerID, req.ProducerEpoch = id, epoch
	return do[*kmsg.InitProducerIDResponse](c, req, version)
}

func TestInitProducerIDErrors(t *testing.T) {
	c := startNode(t, nil).dial()
	txn := kmsg.StringPtr
	for _, x := range []struct {
		what    string
		version int16
		txnID   *string
		timeout int32
		id      int64
		epoch   int16
		code    int16
	}{
		{"new", 0, nil, 0, -1, -1, 0},
		{"new v5", 5, nil, 0, -1, -1, 0},
		{"again", 5, nil, 0, 7, 3, 0},
		{"id without epoch", 3, nil, 0, 7, -1, 42},
		{"epoch without id", 3, nil, 0, -1, 3, 42},
		{"empty transactional id", 0, txn(""), 1000, -1, -1, 42},
		{"timeout of 0", 0, txn("t"), 0, -1, -1, 50},
		{"negative timeout", 0, txn("t"), -5, -1, -1, 50},
		{"timeout too long", 0, txn("t"), 900_001, -1, -1, 50},
		{"transactional", 0, txn("t"), 900_000, -1, -1, 53},
		{"transactional v5", 5, txn("t"), 1000, -1, -1, 53},
	} {
		got := c.initProducer(x.version, x.txnID, x.timeout, x.id, x.epoch)
		if got.ErrorCode != x.code || (x.code == 0) != (got.ProducerID >= 0) || x.code == 0 && got.ProducerEpoch != 0 {
			t.Errorf("%s: %+v, want %d", x.what, got, x.code)
		}
	}
}

// B14: no id is ever given twice, whether the broker stops, is killed, or loses what was not synced.
func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	n := startNode(t, nil)
	seen := map[int64]bool{}
	take := func(count int) {
		c := n.dial()
		for range count {
			got := c.initProducer(4, nil, 0, -1, -1)
			if got.ErrorCode != 0 || seen[got.ProducerID] {
				t.Fatalf("%+v, seen before: %v", got, seen[got.ProducerID])
			}
			seen[got.ProducerID] = true
		}
	}
	take(producerIDBlock + 10)
	n.restart()
	take(10)
	n.powerCut()
	take(10)
}

// fakeBlocks reserves blocks when the test says so.
type fakeBlocks struct {
	next int64
	n    int64
	done []func(catalog.ProducerIDBlock, error)
}

func (f *fakeBlocks) reserve(done func(catalog.ProducerIDBlock, error)) {
	f.done = append(f.done, done)
}

func (f *fakeBlocks) answer(err error) {
	done := f.done[0]
	f.done = f.done[1:]
	if err != nil {
		done(catalog.ProducerIDBlock{}, err)
		return
	}
	f.next += f.n
	done(catalog.ProducerIDBlock{First: f.next - f.n, N: f.n}, nil)
}

func TestPIDAllocator(t *testing.T) {
	blocks := &fakeBlocks{n: 2}
	p := &pidAllocator{reserve: blocks.reserve}
	var ids []int64
	var errs []error
	ask := func(n int) {
		for range n {
			p.next(func(id int64, err error) {
				if err != nil {
					errs = append(errs, err)
				} else {
					ids = append(ids, id)
				}
			})
		}
	}
	ask(5)
	if len(blocks.done) != 1 || len(ids) != 0 {
		t.Fatalf("%d reservations for five that wait, %v given", len(blocks.done), ids)
	}
	blocks.answer(nil)
	blocks.answer(nil)
	blocks.answer(nil)
	if want := []int64{0, 1, 2, 3, 4}; !slices.Equal(ids, want) || len(blocks.done) != 0 {
		t.Fatalf("ids %v, want %v, %d reservations too many", ids, want, len(blocks.done))
	}
	ask(1) // what is left of the third block
	ask(2)
	boom := errors.New("boom")
	blocks.answer(boom)
	if len(ids) != 6 || len(errs) != 2 || errs[0] != boom {
		t.Fatalf("ids %v, errors %v", ids, errs)
	}
	ask(1)
	blocks.answer(nil)
	if len(ids) != 7 || ids[6] != 6 {
		t.Fatalf("after an error: %v", ids)
	}
}
