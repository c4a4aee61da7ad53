package broker

import (
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/group"
	"sluice/internal/coord"
	"sluice/kproto"
)

// What stalled.go needs of the broker, and what comes of it.

// pauseTime is how much later than expected a check must come for the process to have been stopped; a busy machine delays it by less.
const pauseTime = 2 * time.Second

// newStalls makes the broker's.
func (b *Broker) newStalls() *stalls {
	s := newStalls(b.groups.owners, b.resolver)
	s.bounds = b.bounds
	s.ask = b.groups.holdings
	s.interval = func() time.Duration { return b.config().Groups.StalledCheckInterval }
	s.evicts = func() bool { return b.config().Groups.EvictStalled }
	s.began = func(m stalledMember) {
		p := m.partitions[0]
		b.logger.Warn("a group member is stalled: it sends heartbeats and does not read", "group", m.group, "member", m.member, "client", m.clientID,
			"host", m.host, "partitions", len(m.partitions), "topic", p.topic, "partition", p.partition, "backlog", p.backlog,
			"idle", time.Since(p.since.time()).Round(time.Millisecond), "poll interval", m.pollInterval)
	}
	s.evict = func(m stalledMember) {
		b.groups.do(m.group, group.Evict{Group: m.group, MemberID: m.member, Epoch: m.epoch}, func(v any, err error) {
			if evicted, _ := v.(bool); err == nil && evicted {
				s.evictions.Inc()
				b.logger.Warn("the membership of a stalled group member was ended", "group", m.group, "member", m.member)
			}
		})
	}
	return s
}

// bounds tells a partition's first offset and its high watermark.
func (b *Broker) bounds(topic string, partition int32) (start, high int64, ok bool) {
	t := b.topics.byName(topic)
	if t == nil {
		return 0, 0, false
	}
	l := t.used(partition)
	if l == nil {
		return 0, 0, false
	}
	o, err := l.Offsets()
	return o.Start, o.High, err == nil
}

// start begins to check.
func (s *stalls) start(logger *slog.Logger) {
	s.stopping = make(chan struct{})
	s.running.Go(func() {
		for {
			select {
			case <-s.stopping:
				return
			case <-time.After(s.interval()):
				s.guardedCheck(logger)
			}
		}
	})
}

// guardedCheck outlives a panic, which is a defect, as a request does.
func (s *stalls) guardedCheck(logger *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			logger.Error("the check for stalled group members panicked", "panic", p)
		}
	}()
	s.check(time.Now(), s.interval()+pauseTime)
}

// stop waits for the check under way. It may be called without a start.
func (s *stalls) stop() {
	if s.stopping != nil {
		close(s.stopping)
		s.running.Wait()
		s.stopping = nil
	}
}

// holdings asks a shard's machine, and waits for the answer for statsTimeout.
func (g *groups) holdings(shard int32, asked []group.Holder) []group.Holding {
	g.mu.RLock()
	closed := int(shard) >= len(g.shards) || g.shards[shard] == nil
	if closed {
		g.mu.RUnlock()
		return nil
	}
	s := g.shards[shard]
	g.mu.RUnlock()
	var answer []group.Holding
	viewAll([]*coord.Shard{s}, func(m *group.Machine) []group.Holding { return m.Holdings(asked) }, func(list []group.Holding) { answer = list })
	return answer
}

// shown gives a stalled member's partitions in the form that group descriptions carry.
func (m *stalledMember) shown(now time.Time) (list []kproto.Stalled) {
	for _, p := range m.partitions {
		list = append(list, kproto.Stalled{
			Topic: p.topic, Partition: p.partition, IdleMs: now.Sub(p.since.time()).Milliseconds(), Backlog: p.backlog,
		})
	}
	return list
}

// tagStalled marks a member in a description of its group.
func (b *Broker) tagStalled(groupID, member string, tags *kmsg.Tags) {
	if m, ok := b.stalls.of(groupID, member); ok {
		kproto.SetStalled(tags, m.shown(time.Now()))
	}
}
