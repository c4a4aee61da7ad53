package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// seeks is how many random offsets of a partition are looked up.
const seeks = 3

// checkAll compares what a new client sees with the world. What it finds is from then on taken as acknowledged: seen once, it must stay.
func (s *session) checkAll() error {
	if err := s.hello(); err != nil {
		return err
	}
	found, err := s.describe()
	if err != nil {
		return err
	}
	for name := range found {
		if _, known := s.world.names[name]; !known {
			s.problem("topic %s was never made", name)
		}
	}
	for name, versions := range s.world.names {
		v, ok := match(versions, found[name])
		if !ok {
			s.problem("topic %s is %v; expected one of %v", name, found[name], versions)
			continue
		}
		s.world.names[name] = []version{v}
		if err := s.checkTopic(v); err != nil {
			return fmt.Errorf("topic %s: %w", name, err)
		}
	}
	return nil
}

func (v version) String() string {
	if v.topic == nil {
		return "no topic"
	}
	return fmt.Sprintf("topic %x with %d partitions and %v", v.topic.id, v.partitions, v.configs)
}

// match finds the version that is there. A topic whose id was never told takes it now.
func match(versions []version, found version) (version, bool) {
	for _, v := range versions {
		if v.topic == nil || found.topic == nil {
			if v.topic == nil && found.topic == nil {
				return v, true
			}
			continue
		}
		sameID := v.topic.id == found.topic.id || v.topic.id == [16]byte{}
		if sameID && v.partitions == found.partitions && maps.Equal(v.configs, found.configs) {
			v.topic.id = found.topic.id
			return v, true
		}
	}
	return version{}, false
}

// describe gives what Metadata and DescribeConfigs say.
func (s *session) describe() (map[string]version, error) {
	r := kmsg.NewPtrMetadataRequest()
	r.SetVersion(12)
	r.Topics = nil // all
	m, err := one[*kmsg.MetadataResponse](s.conn, r)
	if err != nil {
		return nil, err
	}
	found := map[string]version{}
	for _, t := range m.Topics {
		if t.ErrorCode != codeNone {
			s.problem("Metadata of %s has error %d", *t.Topic, t.ErrorCode)
		}
		configs, err := s.configs(*t.Topic)
		if err != nil {
			return nil, err
		}
		found[*t.Topic] = version{&topic{name: *t.Topic, id: t.TopicID}, len(t.Partitions), configs}
	}
	return found, nil
}

// configs gives the settings that are the topic's own.
func (s *session) configs(name string) (map[string]string, error) {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.SetVersion(4)
	r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}
	d, err := one[*kmsg.DescribeConfigsResponse](s.conn, r)
	if err != nil {
		return nil, err
	}
	s.expect("DescribeConfigs "+name, d.Resources[0].ErrorCode, false)
	own := map[string]string{}
	for _, c := range d.Resources[0].Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig && c.Value != nil {
			own[c.Name] = *c.Value
		}
	}
	return own, nil
}

func (s *session) checkTopic(v version) error {
	if v.topic == nil {
		return nil
	}
	for p := range v.partitions {
		im, code, err := s.conn.read(v.topic.name, p)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		if code != codeNone {
			s.problem("%s-%d cannot be read: error %d", v.topic.name, p, code)
			continue
		}
		part := v.topic.part(p)
		for _, e := range part.compare(im) {
			s.problem("%s-%d: %s", v.topic.name, p, e)
		}
		part.starts = []int64{im.start}
		if err := s.seek(v.topic.name, p, im); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

// compare says what is wrong with a partition's records, and marks the batches that were found as acknowledged.
func (p *partition) compare(im image) (wrong []string) {
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !slices.Contains(p.starts, im.start) {
		report("begins at offset %d, expected one of %v", im.start, p.starts)
	}
	next, last := im.start, map[bool]int{false: -1, true: -1}
	for i, st := range im.batches {
		if st.offset != next && !(i == 0 && st.offset < next) { // the first batch may begin below the start
			report("offset %d follows %d", st.offset, next-1)
		}
		next = st.offset + int64(len(st.values))
		at := p.sent(st)
		switch {
		case at < 0:
			report("offset %d: a batch that was never sent here (producer %d, sequence %d)", st.offset, st.pid, st.seq)
			continue
		// Plain batches keep their order, and idempotent ones; an idempotent one that was sent again comes after plain ones that were not refused.
		case at <= last[st.pid >= 0]:
			report("offset %d: batch %d is there twice or out of order", st.offset, p.batches[at].id)
		}
		last[st.pid >= 0] = at
		b := p.batches[at]
		if b.acked && b.offset != st.offset {
			report("batch %d was acknowledged at offset %d and stands at %d", b.id, b.offset, st.offset)
		}
		b.acked, b.offset = true, st.offset
	}
	if next != im.end {
		report("records end at offset %d, the high watermark is %d", next, im.end)
	}
	return append(wrong, p.missing(im)...)
}

// sent finds which batch this is, byte for byte, or -1.
func (p *partition) sent(st stored) int {
	if len(st.values) == 0 || len(st.values[0]) < 8 {
		return -1
	}
	id := int(binary.BigEndian.Uint32(st.values[0]))
	return slices.IndexFunc(p.batches, func(b *batch) bool {
		return b.id == id && b.pid == st.pid && b.seq == st.seq && slices.EqualFunc(b.values, st.values, bytes.Equal)
	})
}

// missing are acknowledged batches that should be there and are not.
func (p *partition) missing(im image) (wrong []string) {
	at := map[int64]bool{}
	for _, st := range im.batches {
		at[st.offset] = true
	}
	for _, b := range p.batches {
		if b.acked && b.end() > im.start && !at[b.offset] {
			wrong = append(wrong, fmt.Sprintf("batch %d was acknowledged at offset %d and is lost; the log is [%d, %d)", b.id, b.offset, im.start, im.end))
		}
	}
	return wrong
}

// seek reads from random offsets, and outside of the log.
func (s *session) seek(name string, p int, im image) error {
	for range min(seeks, int(im.end-im.start)) {
		at := im.start + s.rng.Int64N(im.end-im.start)
		bs, _, code, err := s.conn.fetch(name, p, at)
		if err != nil {
			return err
		}
		if code != codeNone || len(bs) == 0 || bs[0].offset > at || bs[0].offset+int64(len(bs[0].values)) <= at {
			s.problem("%s-%d: a read at offset %d does not begin with its batch (error %d)", name, p, at, code)
		}
	}
	for _, at := range []int64{im.start - 1, im.end + 1} {
		if bs, _, code, err := s.conn.fetch(name, p, at); err != nil {
			return err
		} else if code != codeOffsetOutOfRange || len(bs) > 0 {
			s.problem("%s-%d: a read at offset %d, outside of [%d, %d), has error %d and %d batches", name, p, at, im.start, im.end, code, len(bs))
		}
	}
	return nil
}

// goOn retries what the producer does not know about, and writes to every partition: the broker must be in working order.
func (s *session) goOn() error {
	if err := s.initProducer(); err != nil {
		return err
	}
	for name := range s.world.names {
		t, n := s.world.current(name)
		if t == nil { // its next incarnation begins empty
			if err := s.create(spec{name, doomedParts, nil}); err != nil {
				return err
			}
			t, n = s.world.current(name)
		}
		for p := range n {
			for _, b := range t.part(p).pending() {
				if _, err := s.send([]item{{t, p, b}}); err != nil {
					return err
				}
			}
		}
		for p := range n {
			t.part(p).stuck = false
		}
		if err := s.produce(all(name, n, false)); err != nil {
			return err
		}
	}
	return nil
}
