package broker

import (
	"fmt"

	"sluice/internal/coord"
	"sluice/internal/machine"
	"sluice/kproto"
	"sluice/log"
)

// replayBytes is read of a log at a time.
const replayBytes = 1 << 20

// machineLog adapts a partition log to what the driver of a machine needs.
type machineLog struct {
	log   *log.Log
	slots chan struct{} // a place for each replay that may run at a time; nil: any number
}

// Append writes the records as one batch, so that a step survives whole or not at all.
func (m *machineLog) Append(records []machine.Record, now machine.Time) (coord.Ticket, error) {
	b := kproto.NewBuilder(kproto.None)
	for _, r := range records {
		b.Add(kproto.Record{Timestamp: now.UnixMilli(), Key: r.Key, Value: r.Value})
	}
	a, err := m.log.Append(b.Batch(), log.AppendOptions{Internal: true})
	if err != nil {
		return nil, err
	}
	return ticket{a.Ticket}, nil
}

// Replay gives every durable record from the start, in order.
func (m *machineLog) Replay(fn func(machine.Record) error) error {
	if m.slots != nil {
		m.slots <- struct{}{}
		defer func() { <-m.slots }()
	}
	o, err := m.log.Offsets()
	if err != nil {
		return err
	}
	var buf []byte
	for at := o.Start; at < o.High; {
		var next int64
		if buf, next, err = m.log.ReadBytes(buf[:0], at, o.High, replayBytes); err != nil {
			return err
		}
		if next <= at {
			return fmt.Errorf("the log %s-%d does not go on at offset %d of %d", m.log.Topic(), m.log.Partition(), at, o.High)
		}
		if err := replayBatches(buf, fn); err != nil {
			return err
		}
		at = next
	}
	return nil
}

func replayBatches(b []byte, fn func(machine.Record) error) error {
	for len(b) > 0 {
		batch, rest, err := kproto.SplitBatch(b)
		if err != nil {
			return err
		}
		var failed error
		err = batch.EachRecord(func(r kproto.Record) bool {
			// The machine may keep what it is given; the buffer is read into again.
			failed = fn(machine.Record{Key: clone(r.Key), Value: clone(r.Value)})
			return failed == nil
		})
		if err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		b = rest
	}
	return nil
}

// clone keeps the difference between empty and nil, which is a tombstone.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// ticket adapts a log's ticket.
type ticket struct{ log.Ticket }

func (t ticket) Notify(fn func(error)) {
	if done, err := t.Ticket.Notify(waiterFunc(fn)); done {
		fn(err)
	}
}

type waiterFunc func(error)

func (f waiterFunc) Resolved(err error) { f(err) }
