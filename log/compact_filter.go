package log

import "sluice/kproto"

// filter gives what is left of a batch: the batch itself, part of it, its bare header, or nil. last: no batch follows it in the segment that is
// being written.
func (r *round) filter(b kproto.Batch, last bool) (kproto.Batch, error) {
	if b.BaseOffset() >= r.end {
		return b, nil
	}
	f := r.fate(b)
	got, err := r.records.Compact(b, kproto.Compaction{
		Keep:    func(k kproto.KeyedRecord) bool { return f.wants(k) },
		Horizon: r.o.Now.Add(r.cfg.DeleteRetention).UnixMilli(),
		Mark:    f.mark,
	})
	if err != nil {
		return nil, err
	}
	r.done.Dropped += int64(got.Dropped)
	switch {
	case got.Batch != nil:
		if got.Tombstones || f.mark {
			r.remember(got.Batch)
		}
		return got.Batch, nil
	case !last && !r.lastOfProducer(b):
		return nil, nil
	case b.Count() == 0:
		return b, nil
	}
	return b.Empty(), nil
}

// fate says what is to become of the records of a batch.
type fate struct {
	*round
	control bool
	discard bool // all of them
	expired bool // tombstones may go
	mark    bool // the batch gets a delete horizon
}

func (r *round) fate(b kproto.Batch) fate {
	horizon, has := b.DeleteHorizon()
	f := fate{round: r, control: b.Control(), expired: has && horizon <= r.o.Now.UnixMilli()}
	switch id := b.ProducerID(); {
	case f.control:
		// A marker goes in two steps: a round that finds nothing of its transaction gives it a horizon, one after that drops it.
		if isEndMarker(b) {
			f.mark = !r.started[id]
			f.discard = f.mark && f.expired
			delete(r.started, id)
		}
	case b.Transactional():
		r.started[id] = true
		f.discard = r.txns.isAborted(b)
	}
	return f
}

// isEndMarker tells transaction markers from control batches of other kinds, which stay.
func isEndMarker(b kproto.Batch) bool {
	_, ok, err := b.EndMarker()
	return ok && err == nil
}

// wants decides about one record.
func (f *fate) wants(k kproto.KeyedRecord) bool {
	switch {
	case k.Offset >= f.end:
		return true
	case f.discard || f.control:
		return !f.discard
	case k.Offset < f.logStart:
		return false // or it would outlive the tombstone above it, and come back if the log start were lost
	case k.Key == nil:
		f.done.Keyless++
		return false
	case f.keys.superseded(k.Key, k.Offset):
		return false
	}
	return !k.Tombstone || !f.expired
}

// lastOfProducer tells whether a batch is the one by which a producer's sequence would be known.
func (r *round) lastOfProducer(b kproto.Batch) bool {
	last, living := r.lastOf[b.ProducerID()]
	return living && last == b.LastOffset() && !b.Control()
}

// remember notes when the next tombstones or markers may go.
func (r *round) remember(b kproto.Batch) {
	if horizon, ok := b.DeleteHorizon(); ok && (r.due == 0 || horizon < r.due) {
		r.due = horizon
	}
}
