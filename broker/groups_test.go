package broker

import (
	"reflect"
	"testing"
	"time"

	"sluice/group"
)

// The partition of a group is where Kafka's tools look for it.
func TestPartitionOf(t *testing.T) {
	for _, x := range []struct {
		group     string
		hash      int32
		partition int32 // of 50
	}{
		{"", 0, 0},
		{"a", 97, 47},
		{"Aa", 2112, 12},
		{"BB", 2112, 12},
		{"console-consumer-12345", 158455506, 6},
		{"polygenelubricants", -1 << 31, 0},
		{"групп", 1026280918, 18},
		{"😀-group", -1198440043, 5}, // two UTF-16 units
		{"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 847293440, 40},
	} {
		if h := javaHash(x.group); h != x.hash {
			t.Errorf("the hash of %q is %d, want %d", x.group, h, x.hash)
		}
		if p := partitionOf(x.group, 50); p != x.partition {
			t.Errorf("the partition of %q is %d, want %d", x.group, p, x.partition)
		}
	}
}

// Every setting of groups reaches the machines.
func TestGroupSettings(t *testing.T) {
	n := startNode(t, map[string]string{
		"group.min.session.timeout.ms": "1001", "group.max.session.timeout.ms": "1002", "group.initial.rebalance.delay.ms": "1003",
		"group.max.size": "1004", "offset.metadata.max.bytes": "1005", "offsets.retention.minutes": "1006",
		"offsets.retention.check.interval.ms": "1007", "group.consumer.session.timeout.ms": "45008",
		"group.consumer.heartbeat.interval.ms": "5009", "group.consumer.assignment.interval.ms": "1010", "group.consumer.max.size": "1011",
		"group.consumer.assignors": "range", "group.consumer.migration.policy": "upgrade",
	})
	want := group.Settings{
		MinSessionTimeout: 1001 * time.Millisecond, MaxSessionTimeout: 1002 * time.Millisecond, InitialRebalanceDelay: 1003 * time.Millisecond,
		Gather: gather, MaxSize: 1004, OffsetMetadataMaxBytes: 1005, OffsetsRetention: 1006 * time.Minute,
		OffsetsRetentionCheck: 1007 * time.Millisecond,
		ConsumerSettings: group.ConsumerSettings{
			ConsumerSessionTimeout: 45_008 * time.Millisecond, ConsumerHeartbeatInterval: 5009 * time.Millisecond,
			ConsumerCalmInterval: 5009 * time.Millisecond, ConsumerAssignmentInterval: 1010 * time.Millisecond,
		},
		ConsumerReconcileInterval: reconcileInterval, ConsumerMaxSize: 1011, ConsumerAssignors: []string{"range"}, Upgrade: true,
	}
	if got := n.groups.settings(); !reflect.DeepEqual(got, want) {
		t.Errorf("the settings are\n%+v, want\n%+v", got, want)
	}
}
