package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"sluice/internal/vfs"
)

func TestFindCoordinator(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	here, err := parseHostPort(n.addr)
	if err != nil {
		t.Fatal(err)
	}
	for version := int16(0); version <= 6; version++ {
		for typ, code := range map[int8]int16{0: 0, 1: 0, 2: 42, 3: 42, -1: 42} {
			if version == 0 && typ != 0 {
				continue
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = typ, "g1", []string{"g1", "g2"}
			resp := do[*kmsg.FindCoordinatorResponse](c, req, version)
			if version < 4 {
				x := kmsg.NewFindCoordinatorResponseCoordinator()
				x.ErrorCode, x.NodeID, x.Host, x.Port, x.Key = resp.ErrorCode, resp.NodeID, resp.Host, resp.Port, "g1"
				resp.Coordinators = append(resp.Coordinators, x)
				req.CoordinatorKeys = []string{"g1"}
			}
			if len(resp.Coordinators) != len(req.CoordinatorKeys) {
				t.Fatalf("v%d: %+v", version, resp)
			}
			for i, x := range resp.Coordinators {
				good := x.NodeID == NodeID && x.Host == here.host && x.Port == here.port
				if x.ErrorCode != code || x.Key != req.CoordinatorKeys[i] || good != (code == 0) {
					t.Errorf("v%d type %d: %+v", version, typ, x)
				}
			}
		}
	}
}

func TestListGroupsIsEmpty(t *testing.T) {
	c := startNode(t, nil).dial()
	for version := int16(0); version <= 5; version++ {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = []string{"Stable"}, []string{"classic"}
		if resp := do[*kmsg.ListGroupsResponse](c, req, version); resp.ErrorCode != 0 || len(resp.Groups) != 0 {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	for _, x := range []struct {
		version  int16
		endpoint int8
		code     int16
	}{{0, 1, 0}, {1, 1, 0}, {2, 1, 0}, {1, 2, 114}, {1, 3, 115}, {2, 0, 115}} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType, req.IncludeClusterAuthorizedOperations = x.endpoint, true
		resp := do[*kmsg.DescribeClusterResponse](c, req, x.version)
		whole := resp.ClusterID == n.ClusterID() && resp.ControllerID == NodeID && len(resp.Brokers) == 1 && resp.ClusterAuthorizedOperations == 8096
		if resp.ErrorCode != x.code || whole != (x.code == 0) {
			t.Errorf("v%d endpoint %d: %+v", x.version, x.endpoint, resp)
		}
	}
}

func TestDescribeLogDirs(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.create(7, false, createEntry("a", 2, 1))
	c.mustCreate("b")
	c.produce("a", 1, "hello")
	ask := func(version int16, topics []kmsg.DescribeLogDirsRequestTopic) map[string][]int64 {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = topics
		resp := do[*kmsg.DescribeLogDirsResponse](c, req, version)
		if resp.ErrorCode != 0 || len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 || resp.Dirs[0].Dir != "/data" {
			t.Fatalf("v%d: %+v", version, resp)
		}
		sizes := map[string][]int64{}
		for _, x := range resp.Dirs[0].Topics {
			for _, p := range x.Partitions {
				sizes[x.Topic] = append(sizes[x.Topic], p.Size)
			}
		}
		return sizes
	}
	entry := func(name string, partitions ...int32) kmsg.DescribeLogDirsRequestTopic {
		x := kmsg.NewDescribeLogDirsRequestTopic()
		x.Topic, x.Partitions = name, partitions
		return x
	}
	for version := int16(1); version <= 4; version++ {
		all := ask(version, nil)
		if len(all) != 2 || len(all["a"]) != 2 || all["a"][0] != 0 || all["a"][1] == 0 || len(all["b"]) != 1 {
			t.Errorf("v%d, all: %v", version, all)
		}
		some := ask(version, []kmsg.DescribeLogDirsRequestTopic{entry("a", 1, 2, -1), entry("x", 0)})
		if len(some) != 1 || len(some["a"]) != 1 || some["a"][0] != all["a"][1] {
			t.Errorf("v%d, some: %v", version, some)
		}
		if none := ask(version, []kmsg.DescribeLogDirsRequestTopic{}); len(none) != 0 {
			t.Errorf("v%d, none: %v", version, none)
		}
	}
}

// roomyFS knows the size of its disk.
type roomyFS struct{ vfs.FS }

func (roomyFS) Space(string) (vfs.Space, error) { return vfs.Space{Total: 5000, Usable: 3000}, nil }

func TestDescribeLogDirsTellsTheDisk(t *testing.T) {
	for fs, want := range map[vfs.FS][2]int64{vfs.NewMem(): {-1, -1}, roomyFS{vfs.NewMem()}: {5000, 3000}} {
		b, err := Start(Options{DataDir: "/data", FS: fs})
		check(t, err)
		d := b.describedDir(kmsg.NewPtrDescribeLogDirsRequest())
		if d.TotalBytes != want[0] || d.UsableBytes != want[1] {
			t.Errorf("%d bytes, %d usable; want %v", d.TotalBytes, d.UsableBytes, want)
		}
		check(t, b.Close(t.Context()))
	}
}

func TestListConfigResources(t *testing.T) {
	c := startNode(t, nil).dial()
	c.mustCreate("a")
	ask := func(version int16, types ...int8) (int16, string) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		resp := do[*kmsg.ListConfigResourcesResponse](c, req, version)
		var names []string
		for _, x := range resp.ConfigResources {
			names = append(names, x.Name)
		}
		return resp.ErrorCode, strings.Join(names, " ")
	}
	for _, x := range []struct {
		version int16
		types   []int8
		code    int16
		names   string
	}{
		{0, nil, 0, ""},
		{1, nil, 0, "a 1 1"},
		{1, []int8{2}, 0, "a"},
		{1, []int8{4, 2, 2}, 0, "a 1"},
		{1, []int8{2, 77}, 35, ""},
	} {
		if code, names := ask(x.version, x.types...); code != x.code || names != x.names {
			t.Errorf("v%d %v: %d %q", x.version, x.types, code, names)
		}
	}
}

// page asks DescribeTopicPartitions for one page.
func (c *client) page(limit int32, cursor *kmsg.DescribeTopicPartitionsResponseNextCursor, names ...string) *kmsg.DescribeTopicPartitionsResponse {
	c.t.Helper()
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range names {
		x := kmsg.NewDescribeTopicPartitionsRequestTopic()
		x.Topic = name
		req.Topics = append(req.Topics, x)
	}
	if cursor != nil {
		x := kmsg.NewDescribeTopicPartitionsRequestCursor()
		x.Topic, x.Partition = cursor.Topic, cursor.Partition
		req.Cursor = &x
	}
	return do[*kmsg.DescribeTopicPartitionsResponse](c, req, 0)
}

// Whatever the size of the pages, they add up to every partition once, in order.
func TestDescribeTopicPartitionsPages(t *testing.T) {
	c := startNode(t, nil).dial()
	sizes := map[string]int32{"a": 3, "b": 1, "c": 7, "d": 2}
	for name, n := range sizes {
		c.create(7, false, createEntry(name, n, 1))
	}
	type place struct {
		topic     string
		partition int32
	}
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int32Range(1, 15).Draw(rt, "limit")
		asked := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.ID[string]).Draw(rt, "topics")
		var want, got []place
		for _, name := range []string{"a", "b", "c", "d"} {
			if len(asked) == 0 || slices.Contains(asked, name) {
				for p := range sizes[name] {
					want = append(want, place{name, p})
				}
			}
		}
		var cursor *kmsg.DescribeTopicPartitionsResponseNextCursor
		for {
			resp := c.page(limit, cursor, asked...)
			n := int32(0)
			for _, x := range resp.Topics {
				for _, p := range x.Partitions {
					got = append(got, place{deref(x.Topic), p.Partition})
					n++
				}
			}
			if cursor = resp.NextCursor; cursor == nil {
				break
			}
			if n != limit {
				rt.Fatalf("a page of %d partitions, limit %d, and more to come", n, limit)
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("pages add up to %v, want %v", got, want)
		}
	})
}

func TestDescribeTopicPartitionsErrors(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.create(7, false, createEntry("a", 2, 1))
	cursor := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
		return &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: topic, Partition: partition}
	}
	for _, x := range []struct {
		what  string
		resp  *kmsg.DescribeTopicPartitionsResponse
		codes []int16
	}{
		{"unknown and bad", c.page(10, nil, "x", "a", "/"), []int16{17, 0, 3}},
		{"named twice", c.page(10, nil, "a", "a"), []int16{0}},
		{"negative cursor", c.page(10, cursor("a", -1), "a"), []int16{42}},
		{"cursor beyond the partitions", c.page(10, cursor("a", 2), "a"), []int16{0}},
		{"cursor far beyond", c.page(10, cursor("a", 1<<31-1), "a"), []int16{0}},
		{"cursor beyond the topics", c.page(10, cursor("b", 0)), nil},
		{"no limit", c.page(0, nil), []int16{0}},
		{"negative limit", c.page(-1, nil), []int16{0}},
	} {
		var codes []int16
		for _, r := range x.resp.Topics {
			codes = append(codes, r.ErrorCode)
		}
		if !slices.Equal(codes, x.codes) || x.resp.NextCursor != nil {
			t.Errorf("%s: %v, cursor %+v", x.what, codes, x.resp.NextCursor)
		}
	}
	a := c.page(10, nil, "a").Topics[0]
	if a.TopicID != n.topics.byName("a").id || len(a.Partitions) != 2 || a.Partitions[1].LeaderID != NodeID || a.Partitions[1].LeaderEpoch != n.Epoch() {
		t.Errorf("%+v", a)
	}
}

func TestAdvertisedAddress(t *testing.T) {
	n := startNode(t, nil)
	n.stop()
	n.opts.Advertise = "broker.example.com:19092"
	n.start()
	c := n.dial()
	b := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 9).Brokers[0]
	f := do[*kmsg.FindCoordinatorResponse](c, kmsg.NewPtrFindCoordinatorRequest(), 1)
	if b.Host != "broker.example.com" || b.Port != 19092 || f.Host != b.Host || f.Port != b.Port {
		t.Errorf("Metadata %s:%d, FindCoordinator %s:%d", b.Host, b.Port, f.Host, f.Port)
	}
	for _, bad := range []string{"x", "x:", ":9092", "x:0", "x:99999", "x:port"} {
		o := n.opts
		o.Advertise = bad
		if _, err := Start(o); err == nil {
			t.Errorf("started with the advertised address %q", bad)
		}
	}
}
