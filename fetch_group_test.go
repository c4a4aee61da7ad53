package sluice

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupsOf gives the groups that the reads of partition 0 of topic t were found to be of, and how, sorted by connection.
func groupsOf(t *testing.T, b *Broker, query string) (groups, methods []string) {
	t.Helper()
	for _, c := range connections(t, b, query) {
		for _, r := range c.Reads {
			if r.Topic != "t" || r.Partition != 0 {
				continue
			}
			name := r.StandIn
			if r.Group != nil {
				name = *r.Group
			}
			groups, methods = append(groups, name), append(methods, r.Method)
		}
	}
	return groups, methods
}

// franz-go fetches on another connection than the one that its member's requests take, and all its clients have one client
// id: with one group that is enough, with two each connection has a slot.
func TestFetchesOfGroups(t *testing.T) {
	b, _ := startWatched(t, map[string]string{"num.partitions": "1"})
	produceValues(t, b, 0, 10)
	first := join(t, b.Addr(), "g")
	defer first.close()
	until(t, "the first group is known", func() bool {
		groups, methods := groupsOf(t, b, "?topic=t")
		return len(groups) == 1 && groups[0] == "g" && methods[0] == "identity"
	})
	second := join(t, b.Addr(), "h")
	until(t, "each has its own", func() bool {
		groups, methods := groupsOf(t, b, "?topic=t&client_id=kgo")
		return len(groups) == 2 && groups[0] == "g" && groups[1] == "h" && methods[1] == "slot"
	})
	second.close()
	until(t, "the second is gone", func() bool {
		groups, _ := groupsOf(t, b, "?topic=t")
		return len(groups) == 1 && groups[0] == "g"
	})
	if n, _ := metric(t, b, `sluice_fetch_group_resolutions_total{method="slot"}`); n < 1 {
		t.Errorf("%v slots counted", n)
	}
}

// A consumer that was told its partitions has no group, until it commits for one.
func TestFetchesWithoutMembership(t *testing.T) {
	b, _ := startWatched(t, map[string]string{"num.partitions": "1"})
	produceValues(t, b, 0, 10)
	c := client(t, b, kgo.ClientID("direct"), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
	read := 0
	for read < 10 {
		read += c.PollFetches(context.Background()).NumRecords()
	}
	until(t, "it has a stand-in", func() bool {
		groups, methods := groupsOf(t, b, "?client_id=direct")
		return len(groups) == 1 && groups[0] == "client:User:ANONYMOUS/direct" && methods[0] == "fallback"
	})
	o := kadm.Offsets{}
	o.AddOffset("t", 0, 10, -1)
	if err := kadm.NewClient(c).CommitAllOffsets(context.Background(), "g", o); err != nil {
		t.Fatal(err)
	}
	produceValues(t, b, 0, 1)
	c.PollFetches(context.Background())
	until(t, "it is the group's", func() bool {
		groups, methods := groupsOf(t, b, "?client_id=direct")
		return len(groups) == 1 && groups[0] == "g" && methods[0] == "simple"
	})
}
