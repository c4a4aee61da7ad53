package config

import (
	"slices"
	"strings"
	"time"
)

// brokerRows are the broker's own settings; those that stand in for topic settings are declared with them.
var brokerRows = []*row{
	// What the broker states.
	{
		name: "node.id", kind: kindInt, def: "1", stated: "it is always 1: there is one node",
		doc: "The id of this node.",
	},
	{
		name: "broker.id", kind: kindInt, def: "1", stated: "it is always 1: there is one node",
		doc: "The id of this node, under its older name.",
	},
	{
		name: "process.roles", kind: kindList, def: "broker,controller", stated: "the one node is broker and controller",
		doc: "What this node does.",
	},
	{
		name: "listeners", kind: kindList, unset: true, stated: "use --listen",
		doc: "The addresses that the broker listens on.",
	},
	{
		name: "advertised.listeners", kind: kindList, unset: true, stated: "use --advertise",
		doc: "The address that clients are told; absent when each connection is told the address it reached.",
	},
	{
		name: "log.dir", kind: kindList, unset: true, stated: "use --data-dir",
		doc: "The data directory, under its older name.",
	},
	{
		name: "log.dirs", kind: kindList, unset: true, stated: "use --data-dir",
		doc: "The data directory.",
	},

	// Topics.
	{
		name: "auto.create.topics.enable", kind: kindBool, def: "true",
		broker: boolean(func(b *Broker) *bool { return &b.AutoCreateTopics }),
		doc:    "Whether a Metadata request for a topic that does not exist creates it, where the client allows it.",
	},
	{
		name: "num.partitions", kind: kindInt, def: "1", allow: atLeast(1),
		broker: whole(func(b *Broker) *int32 { return &b.NumPartitions }),
		doc:    "The partitions of a topic that is created without a number.",
	},
	{
		name: "default.replication.factor", kind: kindInt, def: "1", allow: between(1, 32767),
		broker: whole(func(b *Broker) *int16 { return &b.DefaultReplicationFactor }),
		doc:    "The replication factor of a topic that is created without one. One node can hold one replica.",
	},
	{
		name: "sluice.replication.factor.clamp", kind: kindBool, def: "false", live: true,
		broker: boolean(func(b *Broker) *bool { return &b.ClampReplicationFactor }),
		doc:    "Treats a replication factor above 1 as 1 instead of refusing it, and min.insync.replicas likewise, so that programs written for a cluster run here.",
	},
	{
		name: "delete.topic.enable", kind: kindBool, def: "true",
		broker: boolean(func(b *Broker) *bool { return &b.DeleteTopicEnable }),
		doc:    "Whether topics may be deleted.",
	},
	{
		name: "sluice.max.partitions", kind: kindInt, def: "250000", allow: atLeast(1), live: true,
		broker: whole(func(b *Broker) *int { return &b.MaxPartitions }),
		doc:    "The most partitions that all topics together may have; more are refused.",
	},
	{
		name: "sluice.batch.validation", kind: kindString, def: "strict", allow: oneOf("strict", "relaxed"), live: true,
		broker: func(b *Broker, v value) { b.ValidationStrict = v.text == "strict" },
		doc:    "How closely produced batches are checked: strict reads every record, relaxed the batch header and checksum, and every record only where the broker must.",
	},
	{
		name: "log.cleaner.enable", kind: kindBool, def: "true",
		broker: boolean(func(b *Broker) *bool { return &b.Cleaner.Enable }),
		doc:    "Whether partitions with the compact policy are compacted. The broker's own topics rely on it too.",
	},
	{
		name: "log.cleaner.threads", kind: kindInt, def: "1", allow: between(0, 64), live: true,
		broker: whole(func(b *Broker) *int { return &b.Cleaner.Threads }),
		doc:    "How many partitions are compacted at a time. 0 pauses compaction at once.",
	},
	{
		name: "log.cleaner.backoff.ms", kind: kindLong, def: "15000", allow: atLeast(0), live: true,
		broker: millis(func(b *Broker) *time.Duration { return &b.Cleaner.Backoff }),
		doc:    "How long compaction rests when there was nothing to do.",
	},
	{
		name: "log.cleaner.dedupe.buffer.size", kind: kindLong, def: "134217728", allow: atLeast(mebibyte), live: true,
		broker: whole(func(b *Broker) *int64 { return &b.Cleaner.DedupeBuffer }),
		doc:    "The most memory that compaction takes for keys, all threads together: 24 bytes a key. A partition with more keys is compacted in several rounds.",
	},
	{
		name: "log.cleaner.io.max.bytes.per.second", kind: kindDouble, def: "1.7976931348623157e+308", live: true,
		broker: func(b *Broker, v value) { b.Cleaner.BytesPerSecond = v.number },
		doc:    "The most bytes a second that compaction reads and writes together, all threads together.",
	},
	{
		name: "sluice.scrub.bytes.per.second", kind: kindLong, def: "8388608", allow: atLeast(0), live: true,
		broker: whole(func(b *Broker) *int64 { return &b.ScrubBytesPerSecond }),
		doc:    "The most bytes a second that the scrubber reads to find damage on the disk; 0 turns it off. 8 MiB a second read 4.8 TB a week.",
	},
	{
		name: "sluice.scrub.interval.ms", kind: kindLong, def: "604800000", allow: atLeast(1000), live: true,
		broker: millis(func(b *Broker) *time.Duration { return &b.ScrubInterval }),
		doc:    "From the beginning of one pass of the scrubber over all data to that of the next.",
	},
	{
		name: "log.retention.check.interval.ms", kind: kindLong, def: "300000", allow: atLeast(1),
		broker: millis(func(b *Broker) *time.Duration { return &b.RetentionCheckInterval }),
		doc:    "How often partitions are checked for segments to delete.",
	},

	{
		name: "sluice.ballast.bytes", kind: kindLong, def: "67108864", allow: atLeast(0),
		broker: whole(func(b *Broker) *int64 { return &b.BallastBytes }),
		doc:    "The room that the file ballast in the data directory keeps for deletions on a full disk, at most a 64th of the disk; 0: none.",
	},

	// Connections and requests.
	{
		name: "socket.request.max.bytes", kind: kindInt, def: "104857600", allow: atLeast(1),
		broker: whole(func(b *Broker) *int { return &b.SocketRequestMaxBytes }),
		doc:    "The largest request; a connection that announces a larger one is closed.",
	},
	{
		name: "socket.send.buffer.bytes", kind: kindInt, def: "-1", allow: orMinusOne(atLeast(1)),
		kafka: "102400", why: "the kernel sizes the buffer by the connection's speed, which a fixed size turns off",
		broker: whole(func(b *Broker) *int { return &b.SocketSendBuffer }),
		doc:    "The kernel's send buffer of a connection; -1 lets the kernel choose.",
	},
	{
		name: "socket.receive.buffer.bytes", kind: kindInt, def: "-1", allow: orMinusOne(atLeast(1)),
		kafka: "102400", why: "the kernel sizes the buffer by the connection's speed, which a fixed size turns off",
		broker: whole(func(b *Broker) *int { return &b.SocketReceiveBuffer }),
		doc:    "The kernel's receive buffer of a connection; -1 lets the kernel choose.",
	},
	{
		name: "max.connections", kind: kindInt, def: unlimited32, allow: atLeast(0),
		broker: whole(func(b *Broker) *int { return &b.MaxConnections }),
		doc:    "The most connections at a time, or what the limit of open files allows if that is less (docs/operations.md). Others wait to be accepted.",
	},
	{
		name: "max.connections.per.ip", kind: kindInt, def: unlimited32, allow: atLeast(0),
		broker: whole(func(b *Broker) *int { return &b.MaxConnectionsPerIP }),
		doc:    "The most connections at a time from one address.",
	},
	{
		name: "connections.max.idle.ms", kind: kindLong, def: "600000", allow: orMinusOne(atLeast(1)),
		broker: millis(func(b *Broker) *time.Duration { return &b.ConnectionsMaxIdle }),
		doc:    "How long a connection may be silent before it is closed; -1: for ever.",
	},
	{
		name: "queued.max.request.bytes", kind: kindLong, def: "-1", allow: orMinusOne(atLeast(1)),
		broker: whole(func(b *Broker) *int64 { return &b.QueuedMaxRequestBytes }),
		doc:    "The memory for requests that are being read or worked on, over all connections; at the limit, reading waits. -1 leaves it to the broker.",
	},
	{
		name: "fetch.max.bytes", kind: kindInt, def: "57671680", allow: atLeast(1024),
		broker: whole(func(b *Broker) *int { return &b.FetchMaxBytes }),
		doc:    "The most record bytes in one Fetch response, whatever the client asks for; the first batch is always returned whole.",
	},
	{
		name: "max.incremental.fetch.session.cache.slots", kind: kindInt, def: "1000", allow: atLeast(0),
		broker: whole(func(b *Broker) *int { return &b.FetchSessionSlots }),
		doc:    "The most fetch sessions (KIP-227) that are kept; 0 keeps none.",
	},

	// Producers and transactions.
	{
		name: "producer.id.expiration.ms", kind: kindInt, def: "86400000", allow: atLeast(1), live: true,
		broker: millis(func(b *Broker) *time.Duration { return &b.ProducerExpiration }),
		doc:    "How long a partition remembers an idempotent producer after its last append, by the broker's clock.",
	},
	{
		name: "transaction.max.timeout.ms", kind: kindInt, def: "900000", allow: atLeast(1),
		broker: millis(func(b *Broker) *time.Duration { return &b.TransactionMaxTimeout }),
		doc:    "The longest transaction timeout that a producer may ask for.",
	},
	{
		name: "transactional.id.expiration.ms", kind: kindInt, def: "604800000", allow: atLeast(1),
		doc: "How long an unused transactional id is remembered.",
	},
	{
		name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", kind: kindInt, def: "10000", allow: atLeast(1),
		doc: "How often transactions are checked for their timeout.",
	},
	{
		name: "transaction.remove.expired.transaction.cleanup.interval.ms", kind: kindInt, def: "3600000", allow: atLeast(1),
		doc: "How often transactional ids are checked for their expiry.",
	},
	{
		name: "transaction.partition.verification.enable", kind: kindBool, def: "true",
		doc: "Whether a transactional append is checked against the transaction's partitions.",
	},
	{
		name: "transaction.two.phase.commit.enable", kind: kindBool, def: "false",
		doc: "Whether transactions may take part in a two-phase commit (KIP-939).",
	},
	{
		name: "transaction.state.log.num.partitions", kind: kindInt, def: "50", allow: atLeast(1),
		doc: "The partitions of the topic that holds the transactions.",
	},
	{
		name: "transaction.state.log.replication.factor", kind: kindShort, def: "1", allow: atLeast(1),
		kafka: "3", why: oneNode,
		doc: "The replication factor of the topic that holds the transactions.",
	},
	{
		name: "transaction.state.log.min.isr", kind: kindInt, def: "1", allow: atLeast(1),
		kafka: "2", why: oneNode,
		doc: "min.insync.replicas of the topic that holds the transactions.",
	},
	{
		name: "transaction.state.log.segment.bytes", kind: kindInt, def: "104857600", allow: atLeast(1),
		doc: "segment.bytes of the topic that holds the transactions.",
	},

	// Committed offsets.
	{
		name: "offsets.topic.num.partitions", kind: kindInt, def: "50", allow: atLeast(1),
		broker: whole(func(b *Broker) *int32 { return &b.OffsetsTopicPartitions }),
		doc:    "The partitions of __consumer_offsets when it is first created; a group's is its name's hash modulo their number.",
	},
	{
		name: "offsets.topic.replication.factor", kind: kindShort, def: "1", allow: atLeast(1),
		kafka: "3", why: oneNode,
		doc: "The replication factor of __consumer_offsets.",
	},
	{
		name: "offsets.topic.segment.bytes", kind: kindInt, def: "104857600", allow: atLeast(1),
		broker: whole(func(b *Broker) *int { return &b.OffsetsTopicSegmentBytes }),
		doc:    "segment.bytes of __consumer_offsets.",
	},
	{
		name: "offsets.topic.compression.codec", kind: kindInt, def: "0", allow: between(0, 4),
		doc: "The codec of __consumer_offsets, by its number in Kafka's batch format.",
	},
	{
		name: "offsets.retention.minutes", kind: kindInt, def: "10080", allow: atLeast(1),
		broker: func(b *Broker, v value) { b.Groups.OffsetsRetention = time.Duration(v.times(int64(time.Minute)).whole) },
		doc:    "How long the offsets of a group without members are kept.",
	},
	{
		name: "offsets.retention.check.interval.ms", kind: kindLong, def: "600000", allow: atLeast(1),
		broker: millis(func(b *Broker) *time.Duration { return &b.Groups.OffsetsRetentionCheckInterval }),
		doc:    "How often offsets are checked for their expiry.",
	},
	{
		name: "offsets.commit.timeout.ms", kind: kindInt, def: "5000", allow: atLeast(1),
		doc: "How long an offset commit waits to be durable.",
	},
	{
		name: "offset.metadata.max.bytes", kind: kindInt, def: "4096", allow: atLeast(0),
		broker: whole(func(b *Broker) *int { return &b.Groups.OffsetMetadataMaxBytes }),
		doc:    "The longest text that may accompany a committed offset.",
	},

	// Groups.
	{
		name: "group.initial.rebalance.delay.ms", kind: kindInt, def: "0", allow: atLeast(0),
		kafka: "3000", why: "the file that Kafka ships sets 0 too; a lone consumer need not wait three seconds",
		broker: millis(func(b *Broker) *time.Duration { return &b.Groups.InitialRebalanceDelay }),
		doc:    "How long the first member of a new classic group waits for others.",
	},
	{
		name: "group.min.session.timeout.ms", kind: kindInt, def: "6000", allow: atLeast(1),
		broker: millis(func(b *Broker) *time.Duration { return &b.Groups.MinSessionTimeout }),
		doc:    "The shortest session timeout that a classic member may ask for.",
	},
	{
		name: "group.max.session.timeout.ms", kind: kindInt, def: "1800000", allow: atLeast(1),
		broker: millis(func(b *Broker) *time.Duration { return &b.Groups.MaxSessionTimeout }),
		doc:    "The longest session timeout that a classic member may ask for.",
	},
	{
		name: "group.max.size", kind: kindInt, def: unlimited32, allow: atLeast(1),
		broker: whole(func(b *Broker) *int { return &b.Groups.MaxSize }),
		doc:    "The most members of a classic group.",
	},
	{
		name: "group.consumer.max.size", kind: kindInt, def: unlimited32, allow: atLeast(1),
		broker: whole(func(b *Broker) *int { return &b.Groups.ConsumerMaxSize }),
		doc:    "The most members of a consumer group of the new protocol (KIP-848).",
	},
	{
		name: "group.consumer.assignors", kind: kindList, def: "uniform,range", allow: assignorList(),
		broker: func(b *Broker, v value) { b.Groups.ConsumerAssignors = shortAssignors(v.list) },
		doc:    "The assignors that members of the new protocol may ask for; the first is the group's where they do not ask.",
	},
	{
		name: "group.consumer.migration.policy", kind: kindString, def: "bidirectional", allow: oneOfAnyCase("disabled", "downgrade", "upgrade", "bidirectional"),
		broker: func(b *Broker, v value) {
			policy := strings.ToLower(v.text)
			b.Groups.Migration.Up = policy == "upgrade" || policy == "bidirectional"
			b.Groups.Migration.Down = policy == "downgrade" || policy == "bidirectional"
		},
		doc: "Which way a group may change between the classic and the new protocol.",
	},
	{
		name: "group.consumer.min.session.timeout.ms", kind: kindInt, def: "45000", allow: atLeast(1),
		doc: "The shortest consumer.session.timeout.ms of a group.",
	},
	{
		name: "group.consumer.max.session.timeout.ms", kind: kindInt, def: "60000", allow: atLeast(1),
		doc: "The longest consumer.session.timeout.ms of a group.",
	},
	{
		name: "group.consumer.min.heartbeat.interval.ms", kind: kindInt, def: "5000", allow: atLeast(1),
		doc: "The shortest consumer.heartbeat.interval.ms of a group.",
	},
	{
		name: "group.consumer.max.heartbeat.interval.ms", kind: kindInt, def: "15000", allow: atLeast(1),
		doc: "The longest consumer.heartbeat.interval.ms of a group.",
	},
	{
		name: "group.consumer.min.assignment.interval.ms", kind: kindInt, def: "0", allow: atLeast(0),
		doc: "The shortest consumer.assignment.interval.ms of a group.",
	},
	{
		name: "group.consumer.max.assignment.interval.ms", kind: kindInt, def: "15000", allow: atLeast(0),
		doc: "The longest consumer.assignment.interval.ms of a group.",
	},
	{
		name: "group.coordinator.rebalance.protocols", kind: kindList, def: "classic,consumer", allow: groupProtocols(),
		kafka: "classic,consumer,streams", why: "streams groups are not offered",
		broker: func(b *Broker, v value) { b.Groups.ConsumerProtocol = slices.Contains(v.list, "consumer") },
		doc:    "The group protocols that are offered. Without consumer, requests of the new protocol (KIP-848) get UNSUPPORTED_VERSION.",
	},

	// Client quotas.
	{
		name: "quota.window.num", kind: kindInt, def: "11", allow: atLeast(1),
		broker: whole(func(b *Broker) *int { return &b.Quotas.Windows }),
		doc:    "The samples that a client quota is averaged over: a client that was idle may use what the quota makes in all but one of them at once.",
	},
	{
		name: "quota.window.size.seconds", kind: kindInt, def: "1", allow: atLeast(1),
		broker: seconds(func(b *Broker) *time.Duration { return &b.Quotas.Window }),
		doc:    "The length of one sample of a client quota, and the longest that a client is held for request_percentage at a time.",
	},
	{
		name: "controller.quota.window.num", kind: kindInt, def: "11", allow: atLeast(1),
		broker: whole(func(b *Broker) *int { return &b.Quotas.MutationWindows }),
		doc:    "The samples that the quota on creating and deleting topics is averaged over: what it makes in all of them may be used at once.",
	},
	{
		name: "controller.quota.window.size.seconds", kind: kindInt, def: "1", allow: atLeast(1),
		broker: seconds(func(b *Broker) *time.Duration { return &b.Quotas.MutationWindow }),
		doc:    "The length of one sample of the quota on creating and deleting topics.",
	},
}

const oneNode = "one node can hold one replica"
