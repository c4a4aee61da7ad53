package broker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// guest is a client that is seen once: under an id of its own it joins a group of the consumer protocol, begins a fetch session, and hangs up without a word.
// The group of the guest of an hour ago is gone.
func (s *soak) guest(h, i int) {
	s.t.Helper()
	group := func(h int) string { return "guests-" + strconv.Itoa(h) + "-" + strconv.Itoa(i) }
	c := s.dial()
	defer c.conn.Close()
	ask := func(q kmsg.Request, version int16) kmsg.Response {
		q.SetVersion(version)
		c.corr++
		check(s.t, c.write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(group(h))).AppendRequest(nil, q, c.corr)))
		got, err := c.receive(q, version)
		check(s.t, err)
		return got
	}
	join := consumerJoin(group(h), "m", "events")
	if got := ask(&join, 1).(*kmsg.ConsumerGroupHeartbeatResponse); got.ErrorCode != 0 || got.MemberEpoch == 0 {
		s.t.Fatalf("hour %d: a guest hears %+v", h, got)
	}
	if got := ask(s.books[0].fetchEnd(), 12).(*kmsg.FetchResponse); got.ErrorCode != 0 || got.SessionID == 0 {
		s.t.Fatalf("hour %d: a guest fetches %+v", h, got)
	}
	gone := kmsg.NewPtrConsumerGroupDescribeRequest()
	gone.Groups = []string{group(h - 1)}
	if got := ask(gone, 0).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]; got.ErrorCode != 69 {
		s.t.Fatalf("hour %d: the group of a guest of an hour ago: %+v", h, got)
	}
}

// fetchEnd is a fetch of a new session, at the end, that does not wait.
func (b *soakBook) fetchEnd() *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = b.partition, b.next, 1<<20
	q := kmsg.NewPtrFetchRequest()
	q.MaxBytes, q.SessionEpoch = 1<<20, 0
	q.Topics = []kmsg.FetchRequestTopic{{Topic: b.topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return q
}
