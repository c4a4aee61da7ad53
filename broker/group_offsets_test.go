package broker

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// commitCodes commits for a group without members and gives the codes, partition by partition.
func (c *client) commitCodes(version int16, groupID string, topics ...kmsg.OffsetCommitRequestTopic) (codes []int16) {
	c.t.Helper()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.Generation, q.Topics = groupID, -1, topics
	resp := do[*kmsg.OffsetCommitResponse](c, q, version)
	if len(resp.Topics) != len(topics) {
		c.t.Fatalf("OffsetCommit v%d: %+v", version, resp)
	}
	for i, t := range resp.Topics {
		if version < 10 && t.Topic != topics[i].Topic || version >= 10 && t.TopicID != topics[i].TopicID || len(t.Partitions) != len(topics[i].Partitions) {
			c.t.Fatalf("OffsetCommit v%d: topic %d is %+v", version, i, t)
		}
		for j, p := range t.Partitions {
			if p.Partition != topics[i].Partitions[j].Partition {
				c.t.Fatalf("OffsetCommit v%d: %+v", version, resp)
			}
			codes = append(codes, p.ErrorCode)
		}
	}
	return codes
}

// Every version takes what exists and refuses the rest one by one.
func TestOffsetCommitEveryVersion(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	id := c.create(7, false, createEntry("t", 3, 1))[0].TopicID
	for v := int16(2); v <= 10; v++ {
		name := "g" + string('a'+rune(v))
		known, unknown := commitTopic("t", 1, int64(v), "note"), commitTopic("no", 0, 1, "")
		more := kmsg.NewOffsetCommitRequestTopicPartition()
		for _, p := range []int32{-1, 3, 2} {
			more.Partition, more.Offset = p, int64(v)+10
			known.Partitions = append(known.Partitions, more)
		}
		more.Partition, more.Offset = 0, -2
		known.Partitions = append(known.Partitions, more)
		more.Partition, more.Offset, more.Metadata = 0, 5, kmsg.StringPtr(strings.Repeat("m", 4097))
		known.Partitions = append(known.Partitions, more)
		want := []int16{3, 0, 3, 3, 0, 42, 12}
		if v >= 10 {
			known.TopicID, unknown.TopicID = id, [16]byte{9}
			want[0] = 100
		}
		if codes := c.commitCodes(v, name, unknown, known); !slices.Equal(codes, want) {
			t.Errorf("v%d: %v, want %v", v, codes, want)
		}
		if x := c.fetched(name, "t", 1); x.Offset != int64(v) || deref(x.Metadata) != "note" || x.ErrorCode != 0 {
			t.Errorf("v%d: %+v", v, x)
		}
		if x := c.fetched(name, "t", 2); x.Offset != int64(v)+10 {
			t.Errorf("v%d: %+v", v, x)
		}
		if x := c.fetched(name, "t", 0); x.Offset != -1 {
			t.Errorf("v%d: what was refused is there: %+v", v, x)
		}
	}
	if codes := c.commitCodes(8, "g", commitTopic("no", 0, 1, "")); !slices.Equal(codes, []int16{3}) {
		t.Errorf("nothing that exists: %v", codes)
	}
	if codes := c.commitCodes(2, "", commitTopic("t", 0, 1, "")); !slices.Equal(codes, []int16{0}) {
		t.Errorf("the group without a name: %v", codes)
	}
}

// The setting bounds the metadata.
func TestOffsetMetadataMaxBytes(t *testing.T) {
	n := startNode(t, map[string]string{"offset.metadata.max.bytes": "3"})
	c := n.dial()
	c.mustCreate("t")
	if codes := c.commitCodes(8, "g", commitTopic("t", 0, 1, "abc"), commitTopic("t", 0, 1, "abcd")); !slices.Equal(codes, []int16{0, 12}) {
		t.Errorf("%v", codes)
	}
}

// Who may commit: strangers while the group is empty, members of this generation otherwise.
func TestOffsetCommitFencing(t *testing.T) {
	n := startNode(t, nil)
	n.dial().mustCreate("t")
	m := n.member("g")
	m.gen = 4
	if v8, v9 := m.commit(8, "t", 1), m.commit(9, "t", 1); v8 != 22 || v9 != 69 {
		t.Errorf("an unknown group: %d and %d", v8, v9)
	}
	m.join(9)
	if code := m.commit(9, "t", 1); code != 27 {
		t.Errorf("before SyncGroup: %d", code)
	}
	m.sync(4, map[string]string{m.id: "all"})
	if code := m.commit(9, "t", 1); code != 0 {
		t.Errorf("a member: %d", code)
	}
	if codes := n.dial().commitCodes(9, "g", commitTopic("t", 0, 9, "")); codes[0] != 25 {
		t.Errorf("an outsider: %v", codes)
	}
	m.gen--
	if code := m.commit(9, "t", 9); code != 22 {
		t.Errorf("an old generation: %d", code)
	}
	m.leave(4)
	if codes := n.dial().commitCodes(9, "g", commitTopic("t", 0, 2, "")); codes[0] != 0 {
		t.Errorf("an empty group: %v", codes)
	}
}

func TestOffsetFetchEveryVersion(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	id := c.create(7, false, createEntry("t", 3, 1))[0].TopicID
	c.mustCreate("u")
	c.commitCodes(8, "g", commitTopic("t", 1, 7, "note"), commitTopic("u", 0, 8, ""))
	for v := int16(1); v <= 10; v++ {
		for _, all := range []bool{false, true} {
			if all && v < 2 {
				continue
			}
			q := kmsg.NewPtrOffsetFetchRequest()
			q.Group = "g"
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = "g"
			if !all {
				q.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{1, 0, 9}}, {Topic: "no", Partitions: []int32{0}}}
				g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: id, Partitions: []int32{1, 0, 9}}, {Topic: "no", TopicID: [16]byte{9}, Partitions: []int32{0}}}
			}
			q.Groups = append(q.Groups, g)
			got := fetchedText(c, q, v)
			want := "t-1=7 note 0;t-0=-1  0;t-9=-1  0;no-0=-1  0;"
			if v >= 10 {
				want = "?-0=-1  100;t-1=7 note 0;t-0=-1  0;t-9=-1  0;"
			}
			if all {
				want = "t-1=7 note 0;u-0=8  0;"
			}
			if got != want {
				t.Errorf("v%d, all %v: %s, want %s", v, all, got, want)
			}
		}
	}
}

// fetchedText puts the first group's answer, of any version, into words.
func fetchedText(c *client, q *kmsg.OffsetFetchRequest, version int16) string {
	c.t.Helper()
	resp := do[*kmsg.OffsetFetchResponse](c, q, version)
	names := map[[16]byte]string{}
	for _, t := range do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 12).Topics {
		names[t.TopicID] = deref(t.Topic)
	}
	var b strings.Builder
	part := func(name string, p int32, offset int64, metadata *string, code int16) {
		b.WriteString(name + "-" + itoa(int64(p)) + "=" + itoa(offset) + " " + deref(metadata) + " " + itoa(int64(code)) + ";")
	}
	if resp.ErrorCode != 0 {
		return itoa(int64(resp.ErrorCode))
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			part(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
		}
	}
	if version < 8 {
		return b.String()
	}
	if g := resp.Groups[0]; g.ErrorCode != 0 || g.Group != q.Groups[0].Group {
		return g.Group + " " + itoa(int64(g.ErrorCode))
	}
	for _, t := range resp.Groups[0].Topics {
		name := t.Topic
		if version >= 10 {
			if name = names[t.TopicID]; name == "" {
				name = "?"
			}
		}
		for _, p := range t.Partitions {
			part(name, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
		}
	}
	return b.String()
}

// Several groups in one request, on several shards; unknown ones have no offsets, and one that is named twice is refused.
func TestOffsetFetchOfManyGroups(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("t")
	q := kmsg.NewPtrOffsetFetchRequest()
	for i := range 30 {
		name := "g" + itoa(int64(i))
		if i%2 == 0 {
			c.commitCodes(8, name, commitTopic("t", 0, int64(i), ""))
		}
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
		q.Groups = append(q.Groups, g)
	}
	q.Groups = append(q.Groups, q.Groups[3])
	resp := do[*kmsg.OffsetFetchResponse](c, q, 9)
	for i, g := range resp.Groups {
		if i == 30 {
			if g.ErrorCode != 42 || g.Group != "g3" {
				t.Errorf("the second time: %+v", g)
			}
			continue
		}
		want := int64(i)
		if i%2 == 1 {
			want = -1
		}
		if g.Group != "g"+itoa(int64(i)) || g.ErrorCode != 0 || g.Topics[0].Partitions[0].Offset != want {
			t.Errorf("group %d: %+v", i, g)
		}
	}
}

// The offsets of a deleted topic are gone, also for the next topic of that name, whenever the broker stopped.
func TestTopicDeletionForgetsOffsets(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	remade := func(what string) {
		t.Helper()
		c = n.dial()
		c.mustCreate("t")
		if x := c.fetched("g", "t", 0); x.Offset != -1 {
			t.Errorf("%s: %+v", what, x)
		}
		if x := c.fetched("g", "u", 0); x.Offset != 6 {
			t.Errorf("%s: the other topic's: %+v", what, x)
		}
	}
	commit := func() {
		t.Helper()
		if codes := c.commitCodes(8, "g", commitTopic("t", 0, 5, ""), commitTopic("u", 0, 6, "")); !slices.Equal(codes, []int16{0, 0}) {
			t.Fatal(codes)
		}
	}
	c.mustCreate("t")
	c.mustCreate("u")
	commit()
	c.mustDelete("t")
	remade("at once")
	commit()
	c.mustDelete("t")
	n.powerCut()
	remade("after a power cut")
	commit()
	n.groups.close() // the groups never hear of it in this run
	c.mustDelete("t")
	if !n.logs.contains("could not be removed") {
		t.Error("it did not fail")
	}
	n.logs.forget()
	n.restart()
	remade("in the next run")
}

// A log of groups that cannot be written has clients look for the coordinator again, and goes on when it can.
func TestGroupsThatCannotBeWritten(t *testing.T) {
	var in vfs.Injector
	n := &node{t: t, logs: &logBook{}, opts: Options{DataDir: "/data", FS: vfs.Inject(vfs.NewMem(), &in)}}
	n.start()
	c := n.dial()
	c.mustCreate("t")
	m := n.member("g")
	m.join(9)
	m.sync(4, map[string]string{m.id: "all"})
	in.Add(vfs.Fault{Ops: vfs.OpWrite, Path: "*.log", Sticky: true})
	if code := m.commit(9, "t", 1); code != kproto.NotCoordinator {
		t.Errorf("commit: %d", code)
	}
	in.Heal()
	waitFor(t, func() bool { return m.commit(9, "t", 2) == 0 })
	if code := m.heartbeat(4); code != 0 {
		t.Errorf("heartbeat: %d", code)
	}
	if x := c.fetched("g", "t", 0); x.Offset != 2 {
		t.Errorf("%+v", x)
	}
	in.Add(vfs.Fault{Ops: vfs.OpSync, Path: "*.log", Nth: 1})
	if code := m.commit(9, "t", 3); code != kproto.NotCoordinator {
		t.Errorf("commit: %d", code)
	}
	in.Heal()
	waitFor(t, func() bool { return m.heartbeat(4) == 0 })
	if x := c.fetched("g", "t", 0); x.Offset != 2 {
		t.Errorf("what was not durable is there: %+v", x)
	}
	n.stop()
}

// __consumer_offsets is made at its first use, is internal, has Kafka's settings, and Kafka's records.
func TestOffsetsTopic(t *testing.T) {
	n := startNode(t, map[string]string{"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "2000000"})
	c := n.dial()
	c.mustCreate("t")
	if names := c.names(); !slices.Equal(names, []string{"t"}) {
		t.Errorf("topics before: %v", names)
	}
	c.commitCodes(8, "g", commitTopic("t", 0, 42, ""))
	x := c.describe(12, false, offsetsTopic)[0]
	if x.ErrorCode != 0 || !x.IsInternal || len(x.Partitions) != 7 {
		t.Fatalf("%+v", x)
	}
	_, configs := c.described(4, kmsg.ConfigResourceTypeTopic, offsetsTopic)
	for key, want := range map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "2000000"} {
		if got := deref(configs[key].Value); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	p := partitionOf("g", 7)
	if got := c.produce(offsetsTopic, p, "x"); got.ErrorCode != kproto.InvalidTopic {
		t.Errorf("produce: %+v", got)
	}
	if got := c.delete(6, deleteEntry(kmsg.StringPtr(offsetsTopic), [16]byte{})); got[0].ErrorCode == 0 {
		t.Errorf("delete: %+v", got)
	}
	if got := c.fetchOnce(offsetsTopic, p); got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
		t.Errorf("fetch: %+v", got)
	}
	records := n.records(p)
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	var key kmsg.OffsetCommitKey
	var value kmsg.OffsetCommitValue
	if err := key.ReadFrom(records[0].Key); err != nil || key.Group != "g" || key.Topic != "t" || key.Partition != 0 {
		t.Errorf("key %+v, %v", key, err)
	}
	if err := value.ReadFrom(records[0].Value); err != nil || value.Offset != 42 {
		t.Errorf("value %+v, %v", value, err)
	}
}

// fetchOnce reads a partition from its start.
func (c *client) fetchOnce(topic string, partition int32) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	q := kmsg.NewPtrFetchRequest()
	q.MaxBytes = 1 << 20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.PartitionMaxBytes = partition, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	q.Topics = append(q.Topics, rt)
	return do[*kmsg.FetchResponse](c, q, 12).Topics[0].Partitions[0]
}

// records reads a partition of __consumer_offsets.
func (n *node) records(partition int32) (records []kproto.Record) {
	n.t.Helper()
	l := n.topics.byName(offsetsTopic).partition(partition)
	o, err := l.Offsets()
	if err != nil {
		n.t.Fatal(err)
	}
	b, _, err := l.ReadBytes(nil, o.Start, o.High, 1<<20)
	for err == nil && len(b) > 0 {
		var batch kproto.Batch
		if batch, b, err = kproto.SplitBatch(b); err == nil {
			err = batch.EachRecord(func(r kproto.Record) bool {
				records = append(records, kproto.Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
				return true
			})
		}
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return records
}

func TestDeleteGroupsAndOffsets(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("t")
	c.mustCreate("u")
	m := n.member("busy")
	m.join(9)
	m.sync(4, map[string]string{m.id: "all"})
	c.commitCodes(8, "idle", commitTopic("t", 0, 1, ""), commitTopic("u", 0, 2, ""))

	q := kmsg.NewPtrOffsetDeleteRequest()
	q.Group = "idle"
	q.Topics = []kmsg.OffsetDeleteRequestTopic{
		{Topic: "no", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}},
		{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 4}, {Partition: 0}}},
	}
	resp := do[*kmsg.OffsetDeleteResponse](c, q, 0)
	if resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 3 || resp.Topics[1].Partitions[0].ErrorCode != 3 || resp.Topics[1].Partitions[1].ErrorCode != 0 {
		t.Errorf("OffsetDelete: %+v", resp)
	}
	if x, y := c.fetched("idle", "t", 0), c.fetched("idle", "u", 0); x.Offset != -1 || y.Offset != 2 {
		t.Errorf("offsets are %d and %d", x.Offset, y.Offset)
	}
	for name, want := range map[string]int16{"": 24, "nobody": 69} {
		q.Group = name
		if resp := do[*kmsg.OffsetDeleteResponse](c, q, 0); resp.ErrorCode != want || len(resp.Topics) != 0 {
			t.Errorf("OffsetDelete of %q: %+v", name, resp)
		}
	}
	for v := int16(0); v <= 2; v++ {
		c.commitCodes(8, "idle", commitTopic("t", 0, 1, ""))
		d := kmsg.NewPtrDeleteGroupsRequest()
		d.Groups = []string{"busy", "idle", "nobody", "idle"}
		resp := do[*kmsg.DeleteGroupsResponse](c, d, v)
		var codes []int16
		for _, g := range resp.Groups {
			codes = append(codes, g.ErrorCode)
		}
		if !slices.Equal(codes, []int16{68, 0, 69, 42}) {
			t.Errorf("DeleteGroups v%d: %v", v, codes)
		}
		if x := c.fetched("idle", "t", 0); x.Offset != -1 {
			t.Errorf("the offset of a deleted group is %d", x.Offset)
		}
	}
}

func TestListAndDescribeGroups(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	list := func(version int16, states, types []string) string {
		t.Helper()
		q := kmsg.NewPtrListGroupsRequest()
		q.StatesFilter, q.TypesFilter = states, types
		resp := do[*kmsg.ListGroupsResponse](c, q, version)
		if resp.ErrorCode != 0 {
			t.Errorf("ListGroups v%d: %d", version, resp.ErrorCode)
		}
		var out []string
		for _, g := range resp.Groups {
			out = append(out, g.Group+"/"+g.ProtocolType+"/"+g.GroupState+"/"+g.GroupType)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	if got := list(5, nil, nil); got != "" {
		t.Errorf("no groups: %s", got)
	}
	c.mustCreate("t")
	c.commitCodes(8, "idle", commitTopic("t", 0, 1, ""))
	m := n.member("busy")
	m.join(9)
	m.sync(4, map[string]string{m.id: "all"})
	for _, x := range []struct {
		version       int16
		states, types []string
		want          string
	}{
		{0, nil, nil, "busy/consumer// idle///"},
		{3, nil, nil, "busy/consumer// idle///"},
		{4, nil, nil, "busy/consumer/Stable/ idle//Empty/"},
		{5, nil, nil, "busy/consumer/Stable/classic idle//Empty/classic"},
		{4, []string{"stable"}, nil, "busy/consumer/Stable/"},
		{5, []string{"Empty", "Stable"}, []string{"Classic"}, "busy/consumer/Stable/classic idle//Empty/classic"},
		{5, []string{"Empty"}, []string{"classic", "consumer"}, "idle//Empty/classic"},
		{5, nil, []string{"consumer"}, ""},
		{5, []string{"nonsense"}, nil, ""},
	} {
		if got := list(x.version, x.states, x.types); got != x.want {
			t.Errorf("ListGroups v%d of %v %v: %s, want %s", x.version, x.states, x.types, got, x.want)
		}
	}
	for v := int16(0); v <= 6; v++ {
		q := kmsg.NewPtrDescribeGroupsRequest()
		q.Groups, q.IncludeAuthorizedOperations = []string{"busy", "nobody", "idle", "busy"}, true
		g := do[*kmsg.DescribeGroupsResponse](c, q, v).Groups
		if g[0].ErrorCode != 0 || g[0].State != "Stable" || g[0].ProtocolType != "consumer" || g[0].Protocol != "range" || len(g[0].Members) != 1 ||
			string(g[0].Members[0].MemberAssignment) != "all" || v >= 3 && g[0].AuthorizedOperations != groupOperations {
			t.Errorf("DescribeGroups v%d: %+v", v, g[0])
		}
		if want := 69 * one(v >= 6); g[1].State != "Dead" || g[1].ErrorCode != want || (want != 0) != (g[1].ErrorMessage != nil) {
			t.Errorf("DescribeGroups v%d: unknown: %+v", v, g[1])
		}
		if g[2].State != "Empty" || g[3].ErrorCode != 42 {
			t.Errorf("DescribeGroups v%d: %+v, %+v", v, g[2], g[3])
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// A commit whose topic was found is with its shard before the shard forgets the topic.
func TestDeletionWaitsForCommitsUnderWay(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("t")
	c.commitCodes(8, "g", commitTopic("t", 0, 5, ""))
	n.groups.commits.RLock() // a commit is between the two
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Topics = []kmsg.DeleteTopicsRequestTopic{deleteEntry(kmsg.StringPtr("t"), [16]byte{})}
	deleter := n.dial()
	deleter.send(q, 6)
	waitFor(t, func() bool { return n.topics.byName("t") == nil })
	for range 100 { // time enough to do wrong
		if x := c.fetched("g", "t", 0); x.Offset != 5 {
			t.Fatalf("forgotten too early: %+v", x)
		}
	}
	n.groups.commits.RUnlock()
	if resp := answer[*kmsg.DeleteTopicsResponse](deleter, q, 6); resp.Topics[0].ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	if x := c.fetched("g", "t", 0); x.Offset != -1 {
		t.Errorf("not forgotten: %+v", x)
	}
}
