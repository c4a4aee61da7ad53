package config

import (
	"slices"
	"strings"
)

// foreignKeys are broker settings that Apache Kafka 4.4 knows and that have no meaning here, by the reason why. They are
// accepted, so that a server.properties file written for Kafka works, and each is told to the user once.
type foreignKeys struct {
	why      string
	keys     []string // in order
	prefixes []string // of keys whose rest is a name
}

var foreign = []foreignKeys{
	{
		why: "there is one node, and no replica or other controller to talk to",
		keys: []string{
			"add.partitions.to.txn.retry.backoff.max.ms", "add.partitions.to.txn.retry.backoff.ms",
			"alter.log.dirs.replication.quota.window.num", "alter.log.dirs.replication.quota.window.size.seconds",
			"auto.leader.rebalance.enable", "broker.heartbeat.interval.ms", "broker.rack", "broker.session.timeout.ms",
			"controlled.shutdown.enable", "controller.listener.names", "controller.performance.always.log.threshold.ms",
			"controller.performance.sample.period.ms", "controller.quorum.append.linger.ms",
			"controller.quorum.auto.join.enable", "controller.quorum.bootstrap.servers",
			"controller.quorum.election.backoff.max.ms", "controller.quorum.election.timeout.ms",
			"controller.quorum.fetch.max.bytes", "controller.quorum.fetch.snapshot.max.bytes",
			"controller.quorum.fetch.timeout.ms", "controller.quorum.request.timeout.ms", "controller.quorum.retry.backoff.ms",
			"controller.quorum.voters", "controller.socket.timeout.ms", "early.start.listeners",
			"initial.broker.registration.timeout.ms", "inter.broker.listener.name", "internal.metadata.delete.delay.millis",
			"internal.metadata.log.segment.bytes", "internal.metadata.max.batch.size.in.bytes",
			"leader.imbalance.check.interval.seconds", "max.request.partition.size.limit", "metadata.log.dir",
			"metadata.log.max.record.bytes.between.snapshots", "metadata.log.max.snapshot.interval.ms",
			"metadata.log.segment.bytes", "metadata.log.segment.ms", "metadata.max.idle.interval.ms",
			"metadata.max.retention.bytes", "metadata.max.retention.ms", "num.replica.alter.log.dirs.threads",
			"num.replica.fetchers", "replica.fetch.backoff.ms", "replica.fetch.max.bytes", "replica.fetch.min.bytes",
			"replica.fetch.response.max.bytes", "replica.fetch.wait.max.ms", "replica.high.watermark.checkpoint.interval.ms",
			"replica.lag.time.max.ms", "replica.selector.class", "replica.socket.receive.buffer.bytes",
			"replica.socket.timeout.ms", "replication.quota.window.num", "replication.quota.window.size.seconds",
			"request.timeout.ms", "server.max.startup.time.ms", "socket.connection.setup.timeout.max.ms",
			"socket.connection.setup.timeout.ms", "unclean.leader.election.interval.ms", "unstable.api.versions.enable",
			"unstable.feature.versions.enable",
		},
	},
	{
		why: "there is no TLS, no authentication and no authorization yet, so nothing is protected by it",
		keys: []string{
			"authorizer.class.name", "connection.failed.authentication.delay.ms", "connections.max.reauth.ms",
			"delegation.token.expiry.check.interval.ms", "delegation.token.expiry.time.ms", "delegation.token.max.lifetime.ms",
			"delegation.token.secret.key", "listener.security.protocol.map", "principal.builder.class",
			"sasl.client.callback.handler.class", "sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.kerberos.kinit.cmd",
			"sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal.to.local.rules", "sasl.kerberos.service.name",
			"sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
			"sasl.login.callback.handler.class", "sasl.login.class", "sasl.login.connect.timeout.ms",
			"sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
			"sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms",
			"sasl.login.retry.backoff.ms", "sasl.mechanism.controller.protocol", "sasl.mechanism.inter.broker.protocol",
			"sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer",
			"sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
			"sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss",
			"sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds",
			"sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
			"sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
			"sasl.oauthbearer.assertion.template.file", "sasl.oauthbearer.client.credentials.client.id",
			"sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.clock.skew.seconds",
			"sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
			"sasl.oauthbearer.jwks.endpoint.refresh.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
			"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.url",
			"sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope",
			"sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url",
			"sasl.server.callback.handler.class", "sasl.server.max.receive.size", "security.inter.broker.protocol",
			"security.providers", "ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.cipher.suites", "ssl.client.auth",
			"ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.key.password",
			"ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
			"ssl.keystore.password", "ssl.keystore.type", "ssl.principal.mapping.rules", "ssl.protocol", "ssl.provider",
			"ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.certificates",
			"ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
		},
		prefixes: []string{"listener.name."},
	},
	{
		why: "sluice has no such part, or sizes it by itself",
		keys: []string{
			"background.threads", "cordoned.log.dirs", "delete.records.purgatory.purge.interval.requests",
			"fetch.purgatory.purge.interval.requests", "group.consumer.assignor.offload.enable",
			"group.consumer.regex.refresh.interval.ms", "group.coordinator.append.linger.ms",
			"group.coordinator.background.threads", "group.coordinator.cached.buffer.max.bytes", "group.coordinator.threads",
			"log.cleaner.io.buffer.load.factor", "log.cleaner.io.buffer.size", "log.dir.failure.timeout.ms", "log.flush.offset.checkpoint.interval.ms",
			"log.flush.start.offset.checkpoint.interval.ms", "log.initial.task.delay.ms", "max.connection.creation.rate",
			"max.connections.per.ip.overrides", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
			"num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "offsets.load.buffer.size",
			"producer.id.expiration.check.interval.ms", "producer.purgatory.purge.interval.requests", "queued.max.requests",
			"socket.listen.backlog.size", "telemetry.max.bytes", "transaction.state.log.load.buffer.size",
		},
	},
	{
		why: "there are no plug-ins written in Java",
		keys: []string{
			"alter.config.policy.class.name", "client.quota.callback.class", "config.providers",
			"create.topic.policy.class.name", "kafka.metrics.polling.interval.secs", "kafka.metrics.reporters",
			"metric.reporters",
		},
		prefixes: []string{"config.providers."},
	},
	{
		why: "there is no tiered storage",
		keys: []string{
			"follower.fetch.last.tiered.offset.enable", "remote.fetch.max.wait.ms", "remote.list.offsets.request.timeout.ms",
			"remote.log.index.file.cache.total.size.bytes", "remote.log.index.file.cache.ttl.ms",
			"remote.log.manager.copier.thread.pool.size", "remote.log.manager.copy.max.bytes.per.second",
			"remote.log.manager.copy.quota.window.num", "remote.log.manager.copy.quota.window.size.seconds",
			"remote.log.manager.expiration.thread.pool.size", "remote.log.manager.fetch.max.bytes.per.second",
			"remote.log.manager.fetch.quota.window.num", "remote.log.manager.fetch.quota.window.size.seconds",
			"remote.log.manager.follower.thread.pool.size", "remote.log.manager.task.interval.ms",
			"remote.log.manager.task.retry.backoff.max.ms", "remote.log.manager.task.retry.backoff.ms",
			"remote.log.manager.task.retry.jitter", "remote.log.manager.thread.pool.size",
			"remote.log.metadata.custom.metadata.max.bytes", "remote.log.metadata.manager.class.name",
			"remote.log.metadata.manager.class.path", "remote.log.metadata.manager.impl.prefix",
			"remote.log.metadata.manager.listener.name", "remote.log.reader.max.pending.tasks", "remote.log.reader.threads",
			"remote.log.storage.manager.class.name", "remote.log.storage.manager.class.path",
			"remote.log.storage.manager.impl.prefix", "remote.log.storage.system.enable",
		},
		prefixes: []string{"rlmm.config.", "rsm.config."},
	},
	{
		why: "there are no share groups",
		keys: []string{
			"errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix",
			"group.share.assignment.interval.ms", "group.share.assignor.offload.enable", "group.share.assignors",
			"group.share.delivery.count.limit", "group.share.dlq.manager.class.name", "group.share.heartbeat.interval.ms",
			"group.share.initialize.retry.interval.ms", "group.share.max.assignment.interval.ms",
			"group.share.max.delivery.count.limit", "group.share.max.heartbeat.interval.ms",
			"group.share.max.partition.max.record.locks", "group.share.max.record.lock.duration.ms",
			"group.share.max.session.timeout.ms", "group.share.max.share.sessions", "group.share.max.size",
			"group.share.min.assignment.interval.ms", "group.share.min.delivery.count.limit",
			"group.share.min.heartbeat.interval.ms", "group.share.min.partition.max.record.locks",
			"group.share.min.record.lock.duration.ms", "group.share.min.session.timeout.ms",
			"group.share.partition.max.record.locks", "group.share.persister.class.name",
			"group.share.record.lock.duration.ms", "group.share.session.timeout.ms", "share.coordinator.append.linger.ms",
			"share.coordinator.cached.buffer.max.bytes", "share.coordinator.cold.partition.snapshot.interval.ms",
			"share.coordinator.load.buffer.size", "share.coordinator.snapshot.update.records.per.snapshot",
			"share.coordinator.state.topic.compression.codec", "share.coordinator.state.topic.min.isr",
			"share.coordinator.state.topic.num.partitions", "share.coordinator.state.topic.prune.interval.ms",
			"share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.segment.bytes",
			"share.coordinator.threads", "share.coordinator.write.timeout.ms", "share.fetch.purgatory.purge.interval.requests",
		},
	},
	{
		why: "there are no streams groups",
		keys: []string{
			"group.streams.acceptable.recovery.lag", "group.streams.assignment.interval.ms",
			"group.streams.assignor.offload.enable", "group.streams.assignors", "group.streams.heartbeat.interval.ms",
			"group.streams.initial.rebalance.delay.ms", "group.streams.max.assignment.interval.ms",
			"group.streams.max.heartbeat.interval.ms", "group.streams.max.session.timeout.ms", "group.streams.max.size",
			"group.streams.max.standby.replicas", "group.streams.max.warmup.replicas",
			"group.streams.min.assignment.interval.ms", "group.streams.min.heartbeat.interval.ms",
			"group.streams.min.session.timeout.ms", "group.streams.min.task.offset.interval.ms",
			"group.streams.num.standby.replicas", "group.streams.num.warmup.replicas",
			"group.streams.rack.aware.assignment.tags", "group.streams.session.timeout.ms",
			"group.streams.task.offset.interval.ms", "group.streams.topology.description.plugin.class",
		},
	},
	{
		why: "Apache Kafka 4 no longer has it",
		keys: []string{
			"advertised.host.name", "advertised.port", "broker.id.generation.enable", "control.plane.listener.name",
			"controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms", "host.name",
			"inter.broker.protocol.version", "leader.imbalance.per.broker.percentage", "log.message.downconversion.enable",
			"log.message.format.version", "log.message.timestamp.difference.max.ms", "offsets.commit.required.acks",
			"password.encoder.cipher.algorithm", "password.encoder.iterations", "password.encoder.key.length",
			"password.encoder.keyfactory.algorithm", "password.encoder.old.secret", "password.encoder.secret", "port",
			"reserved.broker.max.id", "zookeeper.client.secure", "zookeeper.connect", "zookeeper.connection.timeout.ms",
			"zookeeper.max.in.flight.requests", "zookeeper.session.timeout.ms", "zookeeper.set.acl", "zookeeper.sync.time.ms",
		},
		prefixes: []string{"zookeeper.ssl."},
	},
}

// foreignReason says why a Kafka key has no meaning here.
func foreignReason(key string) (why string, known bool) {
	for _, f := range foreign {
		if _, found := slices.BinarySearch(f.keys, key); found || f.hasPrefixOf(key) {
			return f.why, true
		}
	}
	return "", false
}

func (f foreignKeys) hasPrefixOf(key string) bool {
	return slices.ContainsFunc(f.prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) && key != prefix })
}

// Ignored tells whether a broker key is accepted without having an effect, and why: Kafka knows it and it has no meaning
// here, or the broker states the value itself, or nothing reads it yet. The caller warns about each such key once.
func Ignored(key string) (why string, ignored bool) {
	r := settings.find(ScopeBroker, key)
	switch {
	case r == nil:
		return foreignReason(key)
	case r.stated != "":
		return r.stated, true
	case !r.hasEffect():
		return "nothing reads it yet", true
	}
	return "", false
}

// Meaningless tells whether Kafka knows the broker key but it has no meaning here; Ignored says why.
func Meaningless(key string) bool {
	_, ignored := Ignored(key)
	return ignored
}
