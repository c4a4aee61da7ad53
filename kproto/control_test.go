package kproto

import "testing"

func TestEndMarkerRoundTrip(t *testing.T) {
	for _, want := range []EndMarker{{Commit: true, CoordinatorEpoch: 7}, {Commit: false, CoordinatorEpoch: -1}} {
		b := want.Batch(42, 3, now)
		if !b.Control() || !b.Transactional() || b.ProducerID() != 42 || b.ProducerEpoch() != 3 || b.BaseSequence() != -1 || b.Count() != 1 || b.MaxTimestamp() != now {
			t.Errorf("the batch's header is %x", b[:HeaderSize])
		}
		if got, ok, err := b.EndMarker(); err != nil || !ok || got != want {
			t.Errorf("got %+v, %v, %v, want %+v", got, ok, err, want)
		}
	}
}

func TestEndMarkerRefuses(t *testing.T) {
	value := []byte{0, 0, 0, 0, 0, 1}
	for _, tt := range []struct {
		name       string
		key, value []byte
		want       int16
	}{
		{"key null", nil, value, CorruptMessage},
		{"key short", []byte{0, 0, 0}, value, CorruptMessage},
		{"key version negative", []byte{0xff, 0xff, 0, 1}, value, CorruptMessage},
		{"value short", []byte{0, 0, 0, 1}, value[:5], CorruptMessage},
		{"value version negative", []byte{0, 0, 0, 0}, []byte{0x80, 0, 0, 0, 0, 1}, CorruptMessage},
		{"another type", []byte{0, 0, 0, 2}, nil, NoError},
	} {
		if _, ok, err := ParseEndMarker(Record{Key: tt.key, Value: tt.value}); ok || errCode(err) != tt.want {
			t.Errorf("%s: %v, %v", tt.name, ok, err)
		}
	}
	if m, ok, err := ParseEndMarker(Record{Key: []byte{0, 1, 0, 1, 9}, Value: []byte{0, 2, 0, 0, 0, 5, 9, 9}}); !ok || err != nil || m != (EndMarker{true, 5}) {
		t.Errorf("later versions, with more fields: %+v, %v, %v", m, ok, err)
	}
	if _, ok, err := build(None, sample(1)...).EndMarker(); ok || err != nil {
		t.Errorf("a data batch: %v, %v", ok, err)
	}
}
