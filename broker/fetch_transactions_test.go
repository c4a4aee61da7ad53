package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/kproto"
	"sluice/log"
	"sluice/throttle"
)

// transaction appends a transaction of one batch, and the marker that ends it.
func (b *bubble) transaction(l *log.Log, records int, commit bool) {
	const producer = 7
	data := kproto.NewBuilder(kproto.None)
	data.ProducerID, data.ProducerEpoch, data.BaseSequence, data.Transactional = producer, 0, 0, true
	for range records {
		data.Add(kproto.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("in a transaction")})
	}
	for _, batch := range []kproto.Batch{data.Batch(), kproto.EndMarker{Commit: commit}.Batch(producer, 0, 0)} {
		_, err := l.Append(batch, internalAppend)
		check(b.t, err)
	}
}

// A log that was taken over from Kafka may hold transactions. Their markers cost no messages and hold nobody up, however many there are in a row. Records of
// aborted transactions are dispatched, and the client drops them: so they cost what others cost, whatever the isolation level.
func TestTransactionsUnderALimit(t *testing.T) {
	for mode, each := range map[throttle.Mode]int64{throttle.Precise: 12, throttle.Approximate: 12, throttle.Batches: 18} {
		for isolation := range int8(2) {
			t.Run(fmt.Sprint(mode, isolation), func(t *testing.T) {
				inBubble(t, throttle.Settings{Topic: msgs(12), Mode: mode}, func(b *bubble) {
					x := b.topic("x", 1, nil)
					for range 2 {
						for range 20 {
							b.transaction(x.partition(0), 2, false)
							b.transaction(x.partition(0), 1, true)
						}
						for range 300 {
							_, err := x.partition(0).Append(kproto.EndMarker{}.Batch(7, 0, 0), internalAppend)
							check(t, err)
						}
					}
					const seconds = 11
					r := b.read("r", seconds*time.Second, func(r *reader) { r.isolation = isolation }, at(x, 0, 0))
					b.readers.Wait()
					want := make([]int64, seconds)
					for i, left := 0, int64(120); left > 0; i++ {
						want[i] = min(each, left)
						left -= want[i]
					}
					if got := r.windows(seconds, time.Second); !slices.Equal(got, want) {
						t.Errorf("got %v, want %v", got, want)
					}
					if o, err := x.partition(0).Offsets(); err != nil || r.ask[0].offset != o.High {
						t.Errorf("read up to %d of %+v, %v", r.ask[0].offset, o, err)
					}
				})
			})
		}
	}
}
