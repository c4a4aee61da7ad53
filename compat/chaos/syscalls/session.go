package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka's error codes that are met here.
const (
	codeNone               = 0
	codeOffsetOutOfRange   = 1
	codeUnknownTopic       = 3
	codeNotLeader          = 6
	codeTimedOut           = 7
	codeLoading            = 14
	codeTopicExists        = 36
	codeInvalidPartitions  = 37
	codeNotController      = 41
	codeKafkaStorageError  = 56
	produceTimeoutMillis   = 10_000
	adminTimeoutMillis     = 10_000
	retryGap               = 300 * time.Millisecond
	retriesAfterOneError   = 8 // a log that could not take back its tail tries again each second
	retriesWhileAllFails   = 1
	recordsInBatch, ofSize = 4, 600 // at most
)

// failing are the answers that a client may get from a broker whose disk fails: it retries, and may find that the request took effect.
var failing = []int16{codeNotLeader, codeTimedOut, codeLoading, codeNotController, codeKafkaStorageError}

// session is a client's life with one broker process.
type session struct {
	world *world
	conn  *conn
	rng   *rand.Rand
	times int // each round of the scenario is played so often
	pid   int64
	epoch int16

	tolerant bool // the disk fails: errors are legal answers
	retries  int
	late     bool        // the topic is being deleted: it may be gone
	noAck    func() bool // no append can be acknowledged any more: what it needs fails for good
	problems []string
}

func (s *session) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// expect tells whether a code is success. also lists codes that are, when the request is a retry. A code that is not legal is a problem.
func (s *session) expect(what string, code int16, retry bool, also ...int16) bool {
	switch {
	case code == codeNone, retry && slices.Contains(also, code):
		return true
	case !s.tolerant || !slices.Contains(failing, code):
		s.problem("%s was answered with error %d", what, code)
	}
	return false
}

// again repeats an admin request that was refused. It reports whether it succeeded at last.
func (s *session) again(try func(retry bool) (bool, error)) (bool, error) {
	for n := 0; ; n++ {
		ok, err := try(n > 0)
		if ok || err != nil || n >= s.retries || !s.tolerant {
			return ok, err
		}
		time.Sleep(retryGap)
	}
}

// hello learns, or checks, the cluster's id.
func (s *session) hello() error {
	r := kmsg.NewPtrMetadataRequest()
	r.SetVersion(12)
	r.Topics = []kmsg.MetadataRequestTopic{}
	m, err := one[*kmsg.MetadataResponse](s.conn, r)
	if err != nil {
		return err
	}
	switch {
	case m.ClusterID == nil:
		s.problem("no cluster id")
	case s.world.cluster == "":
		s.world.cluster = *m.ClusterID
	case s.world.cluster != *m.ClusterID:
		s.problem("cluster id %s became %s", s.world.cluster, *m.ClusterID)
	}
	return nil
}

func (s *session) initProducer() error {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.SetVersion(4)
	s.pid = -1
	_, err := s.again(func(bool) (bool, error) {
		p, err := one[*kmsg.InitProducerIDResponse](s.conn, r)
		if err != nil || !s.expect("InitProducerId", p.ErrorCode, false) {
			return false, err
		}
		if s.world.pids[p.ProducerID] {
			s.problem("producer id %d was given out twice", p.ProducerID)
		}
		s.world.pids[p.ProducerID] = true
		s.pid, s.epoch = p.ProducerID, p.ProducerEpoch
		return true, nil
	})
	return err
}

// spec of a topic to be made.
type spec struct {
	name       string
	partitions int
	configs    map[string]string
}

func (s *session) create(specs ...spec) error {
	made := map[string]bool{}
	topics := map[string]*topic{}
	_, err := s.again(func(retry bool) (bool, error) {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.SetVersion(7)
		r.TimeoutMillis = adminTimeoutMillis
		acks := map[string]func(){}
		for _, sp := range specs {
			if made[sp.name] {
				continue
			}
			if topics[sp.name] == nil {
				topics[sp.name] = newTopic(sp.name)
			}
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = sp.name, int32(sp.partitions), 1
			for k, v := range sp.configs {
				t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: kmsg.StringPtr(v)})
			}
			r.Topics = append(r.Topics, t)
			acks[sp.name] = s.world.change(sp.name, func(v version) version {
				if v.topic != nil { // exists already: nothing happens
					return v
				}
				return version{topics[sp.name], sp.partitions, sp.configs}
			})
		}
		p, err := one[*kmsg.CreateTopicsResponse](s.conn, r)
		if err != nil {
			return false, err
		}
		for _, t := range p.Topics {
			if s.expect("CreateTopics "+t.Topic, t.ErrorCode, retry, codeTopicExists) {
				made[t.Topic] = true
				topics[t.Topic].id = t.TopicID
				acks[t.Topic]()
			}
		}
		return len(made) == len(specs), nil
	})
	return err
}

func (s *session) delete(name string) error {
	_, err := s.again(func(retry bool) (bool, error) {
		ack := s.world.change(name, func(version) version { return version{} })
		p, err := one[*kmsg.DeleteTopicsResponse](s.conn, deleteRequest(name))
		if err != nil || !s.expect("DeleteTopics "+name, p.Topics[0].ErrorCode, retry, codeUnknownTopic) {
			return false, err
		}
		ack()
		return true, nil
	})
	return err
}

func deleteRequest(name string) kmsg.Request {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.SetVersion(5)
	r.TopicNames, r.TimeoutMillis = []string{name}, adminTimeoutMillis
	return r
}

func (s *session) configure(name, key, value string) error {
	if t, _ := s.world.current(name); t == nil {
		return nil // it could not be made
	}
	_, err := s.again(func(bool) (bool, error) {
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.SetVersion(1)
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, name
		res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: kmsg.IncrementalAlterConfigOpSet, Value: &value}}
		r.Resources = append(r.Resources, res)
		ack := s.world.change(name, func(v version) version {
			if v.topic != nil {
				if v.configs == nil {
					v.configs = map[string]string{}
				}
				v.configs[key] = value
			}
			return v
		})
		p, err := one[*kmsg.IncrementalAlterConfigsResponse](s.conn, r)
		if err != nil || !s.expect("IncrementalAlterConfigs "+name, p.Resources[0].ErrorCode, false) {
			return false, err
		}
		ack()
		return true, nil
	})
	return err
}

func (s *session) grow(name string, partitions int) error {
	if t, _ := s.world.current(name); t == nil {
		return nil
	}
	_, err := s.again(func(retry bool) (bool, error) {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.SetVersion(3)
		r.TimeoutMillis = adminTimeoutMillis
		r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: int32(partitions)}}
		ack := s.world.change(name, func(v version) version {
			v.partitions = max(v.partitions, partitions)
			return v
		})
		p, err := one[*kmsg.CreatePartitionsResponse](s.conn, r)
		if err != nil || !s.expect("CreatePartitions "+name, p.Topics[0].ErrorCode, retry, codeInvalidPartitions) {
			return false, err
		}
		ack()
		return true, nil
	})
	return err
}

// deleteRecords moves the start of a partition to the offset.
func (s *session) deleteRecords(name string, p int, offset int64) error {
	t, n := s.world.current(name)
	if t == nil || p >= n {
		return nil
	}
	part := t.part(p)
	if !slices.ContainsFunc(part.batches, func(b *batch) bool { return b.acked && b.end() > offset }) {
		return nil // what should be deleted could not be written
	}
	_, err := s.again(func(bool) (bool, error) {
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.SetVersion(2)
		r.TimeoutMillis = adminTimeoutMillis
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: int32(p), Offset: offset}}}}
		part.starts = append(part.starts, offset)
		a, err := one[*kmsg.DeleteRecordsResponse](s.conn, r)
		if err != nil || !s.expect("DeleteRecords "+name, a.Topics[0].Partitions[0].ErrorCode, false) {
			return false, err
		}
		if got := a.Topics[0].Partitions[0].LowWatermark; got != offset {
			s.problem("DeleteRecords to %d answered low watermark %d", offset, got)
		}
		part.starts = []int64{offset}
		return true, nil
	})
	return err
}

// target is a partition to be produced to.
type target struct {
	name       string
	partition  int
	idempotent bool
}

// item is a batch on its way to a partition.
type item struct {
	topic *topic
	p     int
	batch *batch
}

func (i item) String() string { return fmt.Sprintf("%s-%d batch %d", i.topic.name, i.p, i.batch.id) }

// produce sends a new batch to each target: a request a group, all at once. Idempotent batches that are refused are sent again.
func (s *session) produce(groups ...[]target) error {
	var work [][]item
	for _, g := range groups {
		if items := s.newItems(g); len(items) > 0 {
			work = append(work, items)
		}
	}
	refused, err := s.send(work...)
	for n := 0; len(refused) > 0 && err == nil && n < s.retries; n++ {
		time.Sleep(retryGap)
		refused, err = s.send(refused)
	}
	for _, i := range refused {
		i.topic.part(i.p).stuck = true
	}
	return err
}

func (s *session) newItems(targets []target) []item {
	var items []item
	for _, g := range targets {
		t, n := s.world.current(g.name)
		if t == nil || g.partition >= n || t.part(g.partition).stuck || g.idempotent && s.pid < 0 {
			continue
		}
		pid, epoch := int64(-1), int16(-1)
		if g.idempotent {
			pid, epoch = s.pid, s.epoch
		}
		b := s.world.add(t.part(g.partition), pid, epoch, func(b *batch) { b.fill(s.rng, 1+s.rng.IntN(recordsInBatch), ofSize) })
		items = append(items, item{t, g.partition, b})
	}
	return items
}

// send gives the idempotent batches that were refused.
func (s *session) send(work ...[]item) ([]item, error) {
	if len(work) == 0 {
		return nil, nil
	}
	var requests []kmsg.Request
	for _, items := range work {
		requests = append(requests, produceRequest(items))
	}
	noAck := s.noAck()
	replies, err := s.conn.all(requests...)
	var refused []item
	for i, reply := range replies {
		refused = append(refused, s.took(work[i], reply.(*kmsg.ProduceResponse), noAck)...)
	}
	return refused, err
}

func produceRequest(items []item) kmsg.Request {
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(9)
	r.Acks, r.TimeoutMillis = -1, produceTimeoutMillis
	now := time.Now().UnixMilli()
	for _, i := range items {
		i.batch.sent = true
		at := slices.IndexFunc(r.Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == i.topic.name })
		if at < 0 {
			at = len(r.Topics)
			r.Topics = append(r.Topics, kmsg.ProduceRequestTopic{Topic: i.topic.name})
		}
		r.Topics[at].Partitions = append(r.Topics[at].Partitions, kmsg.ProduceRequestTopicPartition{Partition: int32(i.p), Records: i.batch.encode(now)})
	}
	return r
}

// took takes a reply in.
func (s *session) took(items []item, reply *kmsg.ProduceResponse, noAck bool) (refused []item) {
	codes := map[string]kmsg.ProduceResponseTopicPartition{}
	for _, t := range reply.Topics {
		for _, p := range t.Partitions {
			codes[fmt.Sprint(t.Topic, " ", p.Partition)] = p
		}
	}
	for _, i := range items {
		p, ok := codes[fmt.Sprint(i.topic.name, " ", i.p)]
		switch {
		case !ok:
			s.problem("%v is missing in the reply", i)
		case s.late && p.ErrorCode == codeUnknownTopic:
		case s.expect("Produce of "+i.String(), p.ErrorCode, false):
			if i.batch.acked && i.batch.offset != p.BaseOffset {
				s.problem("%v was acknowledged at offset %d, and again at %d", i, i.batch.offset, p.BaseOffset)
			}
			if noAck && !i.batch.acked {
				s.problem("%v was acknowledged while nothing can become durable", i)
			}
			i.batch.acked, i.batch.offset = true, p.BaseOffset
		case i.batch.pid >= 0:
			refused = append(refused, i)
		}
	}
	return refused
}

// fleeting makes a topic, and deletes it while its first record is on its way.
func (s *session) fleeting(name string) error {
	if err := s.create(spec{name, 1, nil}); err != nil {
		return err
	}
	items := s.newItems([]target{{name, 0, false}})
	if len(items) == 0 {
		return nil // it could not be made
	}
	noAck := s.noAck()
	ack := s.world.change(name, func(version) version { return version{} })
	replies, err := s.conn.all(produceRequest(items), deleteRequest(name))
	if len(replies) > 0 {
		s.late = true
		s.took(items, replies[0].(*kmsg.ProduceResponse), noAck)
		s.late = false
	}
	if len(replies) > 1 && s.expect("DeleteTopics "+name, replies[1].(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, false) {
		ack()
	}
	return err
}

// resendLast sends the last acknowledged idempotent batch of each partition again: it must be recognized.
func (s *session) resendLast(name string) error {
	t, n := s.world.current(name)
	if t == nil {
		return nil
	}
	var items []item
	for p := range n {
		idempotent := slices.DeleteFunc(slices.Clone(t.part(p).batches), func(b *batch) bool { return b.pid < 0 })
		if n := len(idempotent); n > 0 && idempotent[n-1].acked {
			items = append(items, item{t, p, idempotent[n-1]})
		}
	}
	if len(items) == 0 {
		return nil
	}
	_, err := s.send(items)
	return err
}
