package config

import (
	"math"
	"time"
)

// topicRows are the settings of a topic: all of Kafka 4.4's, then ours. With each stand the broker settings that it falls
// back on.
var topicRows = []*row{
	{
		name: "cleanup.policy", kind: kindList, def: "delete", allow: someOf("delete", "compact"),
		fallback: under("log.cleanup.policy"),
		topic: func(t *Topic, v value) {
			t.CleanupDelete, t.CleanupCompact = false, false
			for _, policy := range v.list {
				t.CleanupDelete = t.CleanupDelete || policy == "delete"
				t.CleanupCompact = t.CleanupCompact || policy == "compact"
			}
		},
		doc: "What happens to old records: delete drops whole segments by retention.ms and retention.bytes, compact keeps the newest record of each key. Both may be given; an empty list keeps everything for ever.",
	},
	{
		name: "compression.type", kind: kindString, def: "producer", allow: oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		fallback: under("compression.type"),
		topic: func(t *Topic, v value) {
			t.Compression = v.text
			if v.text == "uncompressed" {
				t.Compression = "none"
			}
		},
		doc: "The codec that batches are stored with. producer stores them as they come; any other codec recompresses the batches that use another one.",
	},
	{
		name: "compression.gzip.level", kind: kindInt, def: "-1", allow: orMinusOne(between(1, 9)),
		fallback: under("compression.gzip.level"),
		topic:    whole(func(t *Topic) *int { return &t.GzipLevel }),
		doc:      "The gzip level when the broker recompresses with gzip; -1 leaves it to the codec.",
	},
	{
		name: "compression.lz4.level", kind: kindInt, def: "9", allow: between(1, 17),
		fallback: under("compression.lz4.level"),
		topic:    whole(func(t *Topic) *int { return &t.Lz4Level }),
		doc:      "The lz4 level when the broker recompresses with lz4.",
	},
	{
		name: "compression.zstd.level", kind: kindInt, def: "3", allow: between(-131072, 22),
		fallback: under("compression.zstd.level"),
		topic:    whole(func(t *Topic) *int { return &t.ZstdLevel }),
		doc:      "The zstd level when the broker recompresses with zstd.",
	},
	{
		name: "delete.retention.ms", kind: kindLong, def: "86400000", allow: atLeast(0),
		fallback: under("log.cleaner.delete.retention.ms"),
		topic:    millis(func(t *Topic) *time.Duration { return &t.DeleteRetention }),
		doc:      "How long a tombstone stays readable in a compacted topic after it was first cleaned.",
	},
	{
		name: "errors.deadletterqueue.group.enable", kind: kindBool, def: "false",
		doc: "Whether share groups may use the topic as their dead letter queue.",
	},
	{
		name: "file.delete.delay.ms", kind: kindLong, def: "60000", allow: atLeast(0),
		fallback: under("log.segment.delete.delay.ms"),
		topic:    millis(func(t *Topic) *time.Duration { return &t.FileDeleteDelay }),
		doc:      "How long the files of a deleted segment stay on the disk after they left the log.",
	},
	{
		name: "flush.messages", kind: kindLong, def: never, allow: atLeast(1),
		fallback: under("log.flush.interval.messages"),
		doc:      "Kafka's number of records between syncs. When records are synced here is said by sluice.durability.",
	},
	{
		name: "flush.ms", kind: kindLong, def: never, allow: atLeast(0),
		fallback: []fallback{{name: "log.flush.interval.ms"}, {name: "log.flush.scheduler.interval.ms", fixed: true}},
		doc:      "Kafka's time between syncs. When records are synced here is said by sluice.durability.",
	},
	{
		name: "follower.replication.throttled.replicas", kind: kindList, allow: replicaList(),
		doc: "The replicas whose followers are throttled; there are no followers here.",
	},
	{
		name: "index.interval.bytes", kind: kindInt, def: "4096", allow: atLeast(0),
		fallback: under("log.index.interval.bytes"),
		topic:    whole(func(t *Topic) *int64 { return &t.IndexInterval }),
		doc:      "About how many bytes of log lie between two entries of the offset index.",
	},
	{
		name: "leader.replication.throttled.replicas", kind: kindList, allow: replicaList(),
		doc: "The replicas whose leaders are throttled; there are no followers here.",
	},
	{
		name: "local.retention.bytes", kind: kindLong, def: "-2", allow: atLeast(-2),
		fallback: under("log.local.retention.bytes"),
		doc:      "The part of retention.bytes kept on the local disk of a tiered topic; there is no tiered storage here.",
	},
	{
		name: "local.retention.ms", kind: kindLong, def: "-2", allow: atLeast(-2),
		fallback: under("log.local.retention.ms"),
		doc:      "The part of retention.ms kept on the local disk of a tiered topic; there is no tiered storage here.",
	},
	{
		name: "max.compaction.lag.ms", kind: kindLong, def: never, allow: atLeast(1),
		fallback: under("log.cleaner.max.compaction.lag.ms"),
		topic: func(t *Topic, v value) {
			if t.MaxCompactionLag = time.Duration(v.times(int64(time.Millisecond)).whole); t.MaxCompactionLag == math.MaxInt64 {
				t.MaxCompactionLag = 0
			}
		},
		doc: "The longest that a record of a compacted topic stays out of reach of the cleaner. Segments of the topic are closed at that age too.",
	},
	{
		name: "max.decompressed.message.bytes", kind: kindInt, def: "2147483639", allow: between(1, 2147483639),
		fallback: under("max.decompressed.message.bytes"),
		doc:      "The largest batch after decompression. The broker's own guard against decompression bombs is tighter.",
	},
	{
		name: "max.message.bytes", kind: kindInt, def: "1048588", allow: atLeast(0),
		fallback: under("message.max.bytes"),
		topic:    whole(func(t *Topic) *int { return &t.MaxMessageBytes }),
		doc:      "The largest record batch that is accepted, in bytes as sent, its 12 bytes of offset and length included.",
	},
	{
		name: "message.timestamp.after.max.ms", kind: kindLong, def: "3600000", allow: atLeast(0),
		fallback: under("log.message.timestamp.after.max.ms"),
		topic:    whole(func(t *Topic) *int64 { return &t.TimestampAfterMaxMs }),
		doc:      "How far a record's timestamp may lie ahead of the broker's clock. Not checked with LogAppendTime.",
	},
	{
		name: "message.timestamp.before.max.ms", kind: kindLong, def: never, allow: atLeast(0),
		fallback: under("log.message.timestamp.before.max.ms"),
		topic:    whole(func(t *Topic) *int64 { return &t.TimestampBeforeMaxMs }),
		doc:      "How far a record's timestamp may lie behind the broker's clock. Not checked with LogAppendTime.",
	},
	{
		name: "message.timestamp.type", kind: kindString, def: "CreateTime", allow: oneOf("CreateTime", "LogAppendTime"),
		fallback: under("log.message.timestamp.type"),
		topic:    func(t *Topic, v value) { t.LogAppendTime = v.text == "LogAppendTime" },
		doc:      "Whose clock records carry: the producer's (CreateTime) or the broker's at append (LogAppendTime).",
	},
	{
		name: "min.cleanable.dirty.ratio", kind: kindDouble, def: "0.5", allow: fraction(),
		fallback: under("log.cleaner.min.cleanable.ratio"),
		topic:    func(t *Topic, v value) { t.MinDirtyRatio = v.number },
		doc:      "The share of a compacted log that must be uncleaned before it is worth cleaning.",
	},
	{
		name: "min.compaction.lag.ms", kind: kindLong, def: "0", allow: atLeast(0),
		fallback: under("log.cleaner.min.compaction.lag.ms"),
		topic:    millis(func(t *Topic) *time.Duration { return &t.MinCompactionLag }),
		doc:      "The shortest time that a record of a compacted topic is left alone. Not more than max.compaction.lag.ms.",
	},
	{
		name: "min.insync.replicas", kind: kindInt, def: "1", allow: atLeast(1),
		fallback: under("min.insync.replicas"),
		topic:    whole(func(t *Topic) *int { return &t.MinInsyncReplicas }),
		doc:      "How many replicas must have a record before acks=all is answered. With one node, more than 1 refuses such produces, unless sluice.replication.factor.clamp counts it as 1.",
	},
	{
		name: "preallocate", kind: kindBool, def: "false",
		fallback: under("log.preallocate"),
		doc:      "Whether a new segment's file is given its full size at once.",
	},
	{
		name: "remote.copy.lag.bytes", kind: kindLong, def: "-1", allow: atLeast(-1),
		fallback: under("log.remote.copy.lag.bytes"),
		doc:      "How many bytes a tiered topic may keep before it copies them away; there is no tiered storage here.",
	},
	{
		name: "remote.copy.lag.ms", kind: kindLong, def: "0", allow: atLeast(-1),
		fallback: under("log.remote.copy.lag.ms"),
		doc:      "How long a tiered topic may keep records before it copies them away; there is no tiered storage here.",
	},
	{
		name: "remote.log.copy.disable", kind: kindBool, def: "false",
		doc: "Stops the copying of a tiered topic; there is no tiered storage here.",
	},
	{
		name: "remote.log.delete.on.disable", kind: kindBool, def: "false",
		doc: "Deletes the remote part when tiering is turned off; there is no tiered storage here.",
	},
	{
		name: "remote.storage.enable", kind: kindBool, def: "false", allow: onlyFalse("no tiered storage"),
		doc: "Tiered storage. There is none here, so only false is accepted.",
	},
	{
		name: "retention.bytes", kind: kindLong, def: "-1",
		fallback: under("log.retention.bytes"),
		topic:    whole(func(t *Topic) *int64 { return &t.RetentionBytes }),
		doc:      "With the delete policy, the size a partition may reach before its oldest segments go; below zero: no limit.",
	},
	{
		name: "retention.ms", kind: kindLong, def: "604800000", allow: atLeast(-1),
		fallback: []fallback{
			{name: "log.retention.ms", allow: orMinusOne(atLeast(1))},
			{name: "log.retention.minutes", kind: kindInt, unit: minuteMs, allow: orMinusOne(atLeast(1)), fixed: true},
			{name: "log.retention.hours", kind: kindInt, unit: hourMs, allow: orMinusOne(atLeast(1)), fixed: true},
		},
		// Minus one minute is "no limit" as minus one millisecond is.
		topic: func(t *Topic, v value) { t.RetentionMs = max(v.whole, -1) },
		doc:   "With the delete policy, how long records are kept; -1: no limit.",
	},
	{
		name: "segment.bytes", kind: kindInt, def: "1073741824", allow: atLeast(mebibyte),
		fallback: under("log.segment.bytes"),
		topic:    whole(func(t *Topic) *int64 { return &t.SegmentBytes }),
		doc:      "The size at which a segment is closed and the next one begun. Records are deleted and compacted by whole segments.",
	},
	{
		// After segment.bytes, so that it wins over it.
		name: "internal.segment.bytes", kind: kindInt, unset: true, allow: atLeast(minSegmentBytes), internal: true,
		fallback: under("internal.segment.bytes"),
		topic:    whole(func(t *Topic) *int64 { return &t.SegmentBytes }),
		doc:      "For tests: wins over segment.bytes and may be smaller.",
	},
	{
		name: "segment.index.bytes", kind: kindInt, def: "10485760", allow: atLeast(4),
		fallback: under("log.index.size.max.bytes"),
		topic:    whole(func(t *Topic) *int64 { return &t.SegmentIndexBytes }),
		doc:      "The largest size of a segment's offset index; a full index closes the segment.",
	},
	{
		name: "segment.jitter.ms", kind: kindLong, def: "0", allow: atLeast(0),
		fallback: []fallback{{name: "log.roll.jitter.ms"}, {name: "log.roll.jitter.hours", kind: kindInt, unit: hourMs, fixed: true}},
		doc:      "The most by which segment.ms is shortened at random, so that partitions do not all begin segments at once.",
	},
	{
		name: "segment.ms", kind: kindLong, def: "604800000", allow: atLeast(1),
		fallback: []fallback{{name: "log.roll.ms"}, {name: "log.roll.hours", kind: kindInt, unit: hourMs, fixed: true}},
		topic:    millis(func(t *Topic) *time.Duration { return &t.SegmentAge }),
		doc:      "The age at which a segment is closed though it is not full.",
	},
	{
		name: "unclean.leader.election.enable", kind: kindBool, def: "false",
		fallback: under("unclean.leader.election.enable"),
		doc:      "Whether a replica that lags behind may lead; there is one replica here.",
	},

	{
		name: "sluice.durability", kind: kindString, def: "fsync", allow: oneOf("fsync", "interval", "os"),
		fallback: under("sluice.durability"),
		topic:    text(func(t *Topic) *string { return &t.Durability }),
		doc:      "When a record is acknowledged: fsync after it is on the disk (many records share one sync), interval when it is written, with a sync at most sluice.durability.interval.ms later, os when it is written, with the sync left to the operating system. No mode loses records when the process is killed; interval and os may when the machine is. Internal topics always use fsync.",
	},
	{
		name: "sluice.durability.interval.ms", kind: kindLong, def: "1000", allow: between(1, hourMs),
		fallback: under("sluice.durability.interval.ms"),
		topic:    millis(func(t *Topic) *time.Duration { return &t.SyncInterval }),
		doc:      "With sluice.durability=interval, the longest that a written record waits for its sync.",
	},
}

// minSegmentBytes is the least that internal.segment.bytes allows, in bytes: room for one batch header and a record.
const minSegmentBytes = 128
