package config

import (
	"slices"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	const T, B = ScopeTopic, ScopeBroker
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		scope      Scope
		key, value string
		want       string // part of the error; "": accepted
	}{
		{T, "retention.ms", " 5 ", ""},
		{T, "retention.ms", "+5", ""},
		{T, "retention.ms", "-1", ""},
		{T, "retention.ms", "-2", "setting retention.ms cannot be \"-2\": it must be a whole number of at least -1"},
		{T, "retention.ms", "", "cannot be \"\": it must be a whole number"},
		{T, "retention.ms", "1e3", "a whole number"},
		{T, "retention.ms", "1_000", "a whole number"},
		{T, "retention.ms", "0x10", "a whole number"},
		{T, "retention.ms", "1.0", "a whole number"},
		{T, "retention.ms", "9223372036854775807", ""},
		{T, "retention.ms", "9223372036854775808", "that fits in 64 bits"},
		{T, "retention.bytes", "-5", ""},
		{T, "segment.bytes", "1048576", ""},
		{T, "segment.bytes", "1048575", "of at least 1048576"},
		{T, "segment.bytes", "2147483648", "that fits in 32 bits"},
		{T, "internal.segment.bytes", "4096", ""},
		{T, "internal.segment.bytes", "1", "of at least 128"},
		{T, "cleanup.policy", "", ""},
		{T, "cleanup.policy", " compact , delete", ""},
		{T, "cleanup.policy", "delete,delete", ""},
		{T, "cleanup.policy", "delete,", "a list of delete, compact"},
		{T, "cleanup.policy", "none", "a list of delete, compact"},
		{T, "cleanup.policy", "Delete", "a list of delete, compact"},
		{T, "compression.type", " gzip ", ""},
		{T, "compression.type", "GZIP", "one of uncompressed, zstd"},
		{T, "compression.gzip.level", "-1", ""},
		{T, "compression.gzip.level", "0", "a whole number from 1 to 9, or -1"},
		{T, "compression.zstd.level", "23", "from -131072 to 22"},
		{T, "preallocate", "TRUE", ""},
		{T, "preallocate", "yes", "true or false"},
		{T, "preallocate", "", "true or false"},
		{T, "min.cleanable.dirty.ratio", "1", ""},
		{T, "min.cleanable.dirty.ratio", "1.01", "a number from 0 to 1"},
		{T, "min.cleanable.dirty.ratio", "NaN", "a number from 0 to 1"},
		{T, "min.cleanable.dirty.ratio", "1e999", "a number from 0 to 1"},
		{T, "min.cleanable.dirty.ratio", "half", "a number from 0 to 1"},
		{T, "remote.storage.enable", "false", ""},
		{T, "remote.storage.enable", "true", "false (there is no tiered storage)"},
		{T, "follower.replication.throttled.replicas", "", ""},
		{T, "follower.replication.throttled.replicas", "*", ""},
		{T, "follower.replication.throttled.replicas", "0:1,1:1", ""},
		{T, "follower.replication.throttled.replicas", "0:1,*", "a list of partition:broker, or *"},
		{T, "follower.replication.throttled.replicas", "0", "a list of partition:broker"},
		{T, "follower.replication.throttled.replicas", "-1:1", "a list of partition:broker"},
		{T, "sluice.durability", "interval", ""},
		{T, "sluice.durability", "never", "one of fsync, interval, os"},
		{T, "sluice.durability.interval.ms", "0", "from 1 to 3600000"},
		{T, "message.timestamp.type", "CreateTime", ""},
		{T, "message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"},
		{T, "max.compaction.lag.ms", "0", "of at least 1"},
		{T, "compression.type", long, "\"" + long[:maxQuotedBytes] + "\"..."},
		{T, "compression.type", "x" + strings.Repeat("é", 100), "\"x" + strings.Repeat("é", maxQuotedBytes/2-1) + "\"..."},
		{T, "leader.replication.throttled.replicas", strings.Repeat("0", maxValueBytes+1), "the value has 65537 bytes; at most 65536 are allowed"},
		{T, "retention.ms", strings.Repeat(" ", maxShortBytes-1) + "1", ""},
		{T, "retention.ms", strings.Repeat(" ", maxShortBytes) + "1", "the value has 129 bytes; at most 128 are allowed"},
		{B, "log.retention.ms", "0", "of at least 1, or -1"},
		{B, "log.retention.hours", "2147483648", "that fits in 32 bits"},
		{B, "log.segment.bytes", "5", "of at least 1048576"},
		{B, "offsets.topic.replication.factor", "32768", "that fits in 16 bits"},
		{B, "group.consumer.migration.policy", "BIDIRECTIONAL", ""},
		{B, "node.id", "x", "a whole number"},
		{B, "num.io.threads", "x", ""},
		{B, "num.partitions", "0", "of at least 1"},

		{T, "segment.byte", "1", "unknown topic setting \"segment.byte\"; the nearest known one is segment.bytes;"},
		{T, "retention.sm", "1", "nearest known one is retention.ms;"},
		{T, "log.segment.bytes", "1", "log.segment.bytes is not a topic setting: use segment.bytes"},
		{T, "log.retention.hours", "1", "use retention.ms"},
		{T, "num.partitions", "1", "num.partitions is not a topic setting: it is a setting of a broker"},
		{T, "consumer.session.timeout.ms", "1", "it is a setting of a group"},
		{B, "retention.ms", "1", "it is a setting of a topic; for all of them use log.retention.ms"},
		{B, "remote.storage.enable", "false", "it is a setting of a topic"},
		{B, "num.partition", "1", "unknown broker setting \"num.partition\"; the nearest known one is num.partitions;"},
		{B, "num.io.thread", "1", "nearest known one is num.io.threads;"},
		{B, "relativeToPublishRate", "true", "unknown broker setting \"relativeToPublishRate\"; remove it"},
		{B, "", "1", "unknown broker setting \"\""},
		{B, long, "1", "...; remove it"},
		{ScopeGroup, "consumer.session.timeout", "1", "nearest known one is consumer.session.timeout.ms;"},
		{ScopeGroup, "share.session.timeout.ms", "1", "\"share.session.timeout.ms\": there are no share groups"},
		{ScopeGroup, "streams.num.standby.replicas", "1", "there are no streams groups"},
		{Scope(0), "x", "1", "unknown unknown setting"},
	} {
		err := Validate(c.scope, c.key, c.value)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v %s=%s: %v", c.scope, c.key, c.value, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v %s=%s: got %v, want %q", c.scope, c.key, c.value, err, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"abcd", "badc", 2},
		{"kitten", "sitting", 3}, {"ms", "bytes", 4},
	} {
		if got := distance(c.a, c.b, 100); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a, 2); got != min(c.want, 2) {
			t.Errorf("distance(%q, %q) limited to 2 = %d", c.b, c.a, got)
		}
	}
	words := slices.Values([]string{"abc", "abd", "xyz"})
	for s, want := range map[string]string{"ab": "abc", "abd": "abd", "yz": "xyz", strings.Repeat("a", maxNearBytes+1): ""} {
		if got := nearest(s, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", s, got, want)
		}
	}
	for _, scope := range allScopes {
		for key := range known(scope) {
			if len(key)*2 > maxNearBytes {
				t.Errorf("%s is longer than maxNearBytes allows for", key)
			}
		}
	}
}

func TestDoubles(t *testing.T) {
	for raw, want := range map[string]string{"1": "1.0", " .5": "0.5", "0": "0.0", "1e300": "1e+300", "0x1p-2": "0.25"} {
		v, err := kindDouble.parse(raw)
		if err != nil || v.String() != want {
			t.Errorf("%q reads back as %q, %v; want %q", raw, v.String(), err, want)
		}
	}
}
