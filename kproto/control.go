package kproto

import "encoding/binary"

// Types of control records, in their key (KIP-98).
const (
	controlAbort  = 0
	controlCommit = 1
)

// endMarkerVersion is the version of a marker's key and value that is written; higher ones may
// only append fields.
const endMarkerVersion = 0

const (
	controlKeySize = 4 // version, type
	endMarkerSize  = 6 // version, coordinator epoch
)

// EndMarker is the control record that ends a transaction on a partition.
type EndMarker struct {
	Commit           bool
	CoordinatorEpoch int32
}

// ParseEndMarker reads a control record. Other types of control records give ok false and no error;
// what is no control record gives an *Error with code 2.
func ParseEndMarker(r Record) (m EndMarker, ok bool, err error) {
	if len(r.Key) < controlKeySize || int16(binary.BigEndian.Uint16(r.Key)) < 0 {
		return m, false, corrupt("a control record's key has %d bytes or a negative version", len(r.Key))
	}
	kind := binary.BigEndian.Uint16(r.Key[2:])
	if kind != controlAbort && kind != controlCommit {
		return m, false, nil
	}
	if len(r.Value) < endMarkerSize || int16(binary.BigEndian.Uint16(r.Value)) < 0 {
		return m, false, corrupt("a transaction marker's value has %d bytes or a negative version", len(r.Value))
	}
	m.Commit = kind == controlCommit
	m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(r.Value[2:]))
	return m, true, nil
}

// Batch makes the marker's batch for one producer, written at ms.
func (m EndMarker) Batch(producerID int64, producerEpoch int16, ms int64) Batch {
	kind := uint16(controlAbort)
	if m.Commit {
		kind = controlCommit
	}
	be := binary.BigEndian
	b := NewBuilder(None)
	b.ProducerID, b.ProducerEpoch = producerID, producerEpoch
	b.Transactional, b.Control = true, true
	b.Add(Record{
		Timestamp: ms,
		Key:       be.AppendUint16(be.AppendUint16(nil, endMarkerVersion), kind),
		Value:     be.AppendUint32(be.AppendUint16(nil, endMarkerVersion), uint32(m.CoordinatorEpoch)),
	})
	return b.Batch()
}

// EndMarker reads the one record of a control batch, as ParseEndMarker does.
func (b Batch) EndMarker() (m EndMarker, ok bool, err error) {
	if !b.Control() {
		return m, false, nil
	}
	walked := b.EachRecord(func(r Record) bool {
		m, ok, err = ParseEndMarker(r)
		return false
	})
	if walked != nil {
		return m, false, walked
	}
	return m, ok, err
}
