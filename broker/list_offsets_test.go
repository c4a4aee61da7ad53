package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
	"sluice/log"
)

// listOffset asks for one timestamp of partition 0.
func (w *wire) listOffset(version int16, topic string, timestamp int64, current int32) kmsg.ListOffsetsResponseTopicPartition {
	q := kmsg.NewPtrListOffsetsRequest()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = timestamp, current
	q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return w.do(version, q).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

func TestListOffsets(t *testing.T) {
	r := newRig(t, nil)
	w := r.dial()
	l := r.topic("a", 1, nil).partition(0)
	r.topic("empty", 1, nil)
	r.b.dir.SetEpoch(1)
	for _, ms := range []int64{1000, 3000, 2000} {
		b := kproto.NewBuilder(kproto.Gzip)
		b.Add(kproto.Record{Timestamp: ms, Value: []byte("x")})
		b.Add(kproto.Record{Timestamp: ms + 1, Value: []byte("y")})
		a, err := l.Append(b.Batch(), log.AppendOptions{})
		check(t, err)
		check(t, a.Ticket.Wait(t.Context()))
	}
	type answer struct {
		code          int16
		offset, stamp int64
		epoch         int32
	}
	for _, c := range []struct {
		name    string
		version int16
		topic   string
		asked   int64
		current int32
		want    answer
	}{
		{"latest", 4, "a", -1, -1, answer{0, 6, -1, rigEpoch}},
		{"latest v1", 1, "a", -1, -1, answer{0, 6, -1, -1}},
		{"earliest", 4, "a", -2, -1, answer{0, 0, -1, 1}},
		{"earliest of nothing", 4, "empty", -2, -1, answer{0, 0, -1, -1}},
		{"latest of nothing", 4, "empty", -1, -1, answer{0, 0, -1, rigEpoch}},
		{"max timestamp", 7, "a", -3, -1, answer{0, 3, 3001, 1}},
		{"max timestamp of nothing", 7, "empty", -3, -1, answer{0, -1, -1, -1}},
		{"max timestamp v6", 6, "a", -3, -1, answer{35, -1, -1, -1}},
		{"earliest local", 8, "a", -4, -1, answer{0, 0, -1, 1}},
		{"earliest local v7", 7, "a", -4, -1, answer{35, -1, -1, -1}},
		{"latest tiered", 9, "a", -5, -1, answer{0, -1, -1, -1}},
		{"latest tiered v8", 8, "a", -5, -1, answer{35, -1, -1, -1}},
		{"pending upload", 11, "a", -6, -1, answer{0, -1, -1, -1}},
		{"pending upload v10", 10, "a", -6, -1, answer{35, -1, -1, -1}},
		{"no such special", 11, "a", -7, -1, answer{35, -1, -1, -1}},
		{"before all", 4, "a", 0, -1, answer{0, 0, 1000, 1}},
		{"inside a batch", 4, "a", 1001, -1, answer{0, 1, 1001, 1}},
		{"between", 4, "a", 1002, -1, answer{0, 2, 3000, 1}},
		{"after all", 4, "a", 3002, -1, answer{0, -1, -1, -1}},
		{"unknown topic", 4, "b", -1, -1, answer{3, -1, -1, -1}},
		{"older epoch", 4, "a", -1, rigEpoch - 1, answer{74, -1, -1, -1}},
		{"current epoch", 4, "a", -1, rigEpoch, answer{0, 6, -1, rigEpoch}},
		{"newer epoch", 4, "a", -1, rigEpoch + 1, answer{75, -1, -1, -1}},
	} {
		p := w.listOffset(c.version, c.topic, c.asked, c.current)
		if got := (answer{p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestListOffsetsRequest(t *testing.T) {
	r := newRig(t, nil)
	r.topic("a", 2, nil)
	q := kmsg.NewPtrListOffsetsRequest()
	for _, partition := range []int32{0, 1, 0, 9} {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, -1
		q.Topics = append(q.Topics, kmsg.ListOffsetsRequestTopic{Topic: "a", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
	}
	for i, want := range []int16{42, 0, 42, 3} { // a partition asked twice is refused at each place
		if got := r.dial().do(7, q).(*kmsg.ListOffsetsResponse).Topics[i].Partitions[0].ErrorCode; got != want {
			t.Errorf("%d: code %d, want %d", i, got, want)
		}
	}
	q.Topics, q.IsolationLevel = q.Topics[1:2], 7
	if got := r.dial().do(7, q).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode; got != 42 {
		t.Errorf("isolation level 7: code %d", got)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	r := newRig(t, nil)
	l := r.topic("a", 1, nil).partition(0)
	r.b.dir.SetEpoch(1)
	r.fill(l, 3, 10)
	r.b.dir.SetEpoch(rigEpoch)
	ask := func(topic string, epoch, current int32) [3]int64 {
		q := kmsg.NewPtrOffsetForLeaderEpochRequest()
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch, p.CurrentLeaderEpoch = epoch, current
		q.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
		var got [3]int64
		for version := int16(2); version <= 4; version++ {
			x := r.dial().do(version, q).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			next := [3]int64{int64(x.ErrorCode), int64(x.LeaderEpoch), x.EndOffset}
			if version > 2 && next != got {
				t.Errorf("v%d answers %v, before it was %v", version, next, got)
			}
			got = next
		}
		return got
	}
	expect := func(what string, got, want [3]int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("the last with data", ask("a", 1, -1), [3]int64{0, 1, 3})
	expect("without data", ask("a", 2, -1), [3]int64{0, 2, 3})
	expect("current", ask("a", rigEpoch, rigEpoch), [3]int64{0, rigEpoch, 3})
	r.fill(l, 2, 10)
	expect("ended", ask("a", 1, -1), [3]int64{0, 1, 3})
	expect("lost or empty", ask("a", 2, -1), [3]int64{0, 1, 3})
	expect("current with data", ask("a", rigEpoch, -1), [3]int64{0, rigEpoch, 5})
	expect("to come", ask("a", rigEpoch+1, -1), [3]int64{0, -1, -1})
	expect("none", ask("a", -1, -1), [3]int64{0, -1, -1})
	expect("unknown topic", ask("b", 1, -1), [3]int64{3, -1, -1})
	expect("older claim", ask("a", 1, 1), [3]int64{74, -1, -1})
	expect("newer claim", ask("a", 1, 9), [3]int64{75, -1, -1})
}
