package broker

import (
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// spy is another client, which looks at what can be seen: Metadata, Fetch, DescribeConfigs. What it has seen is promised. It looks whenever it is
// kicked, also while the script's requests stand still.
type spy struct {
	w      *world
	c      *client
	kicks  chan chan struct{} // what is to be closed once it has looked, or nil
	over   chan struct{}
	wg     sync.WaitGroup
	broken bool // the connection is gone
}

func newSpy(w *world) *spy {
	s := &spy{w: w, c: w.dial(), kicks: make(chan chan struct{}), over: make(chan struct{})}
	s.wg.Go(s.run)
	return s
}

func (s *spy) run() {
	for {
		var done chan struct{}
		select {
		case done = <-s.kicks:
		case <-s.over:
			return
		}
		if !s.broken {
			s.broken = s.pass() != nil
		}
		if done != nil {
			close(done)
		}
	}
}

// kick has the spy look if it is not looking already; it does not wait.
func (s *spy) kick() {
	select {
	case s.kicks <- nil:
	default:
	}
}

// look waits until the spy has looked.
func (s *spy) look() {
	done := make(chan struct{})
	s.kicks <- done
	<-done
}

func (s *spy) stop() {
	close(s.over)
	s.wg.Wait()
	s.c.conn.Close()
}

func (s *spy) moves() int {
	s.w.book.mu.Lock()
	defer s.w.book.mu.Unlock()
	return s.w.book.moves
}

// pass looks once.
func (s *spy) pass() error {
	before := s.moves()
	q := kmsg.NewPtrMetadataRequest()
	resp, err := s.c.try(q, 12)
	if err != nil {
		return err
	}
	topics := resp.(*kmsg.MetadataResponse).Topics
	configs, err := s.configs(topics)
	if err != nil {
		return err
	}
	s.note(before, topics, configs)
	return s.fetch(topics)
}

type seenConfig struct {
	typ    kmsg.ConfigResourceType
	name   string
	config string
}

func (s *spy) configs(topics []kmsg.MetadataResponseTopic) ([]seenConfig, error) {
	q := kmsg.NewPtrDescribeConfigsRequest()
	add := func(typ kmsg.ConfigResourceType, name string) {
		rr := kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = typ, name
		q.Resources = append(q.Resources, rr)
	}
	for _, t := range topics {
		add(kmsg.ConfigResourceTypeTopic, *t.Topic)
	}
	add(kmsg.ConfigResourceTypeBroker, "1")
	add(kmsg.ConfigResourceTypeBroker, "")
	resp, err := s.c.try(q, 4)
	if err != nil {
		return nil, err
	}
	var all []seenConfig
	for _, x := range resp.(*kmsg.DescribeConfigsResponse).Resources {
		if x.ErrorCode == 0 {
			all = append(all, seenConfig{x.ResourceType, x.ResourceName, ownConfig(x)})
		}
	}
	return all, nil
}

// ownConfig is what is set for the resource itself.
func ownConfig(x kmsg.DescribeConfigsResponseResource) string {
	source := kmsg.ConfigSourceDynamicTopicConfig
	switch {
	case x.ResourceType == kmsg.ConfigResourceTypeBroker && x.ResourceName == "":
		source = kmsg.ConfigSourceDynamicDefaultBrokerConfig
	case x.ResourceType == kmsg.ConfigResourceTypeBroker:
		source = kmsg.ConfigSourceDynamicBrokerConfig
	}
	config := map[string]string{}
	for _, c := range x.Configs {
		if c.Source == source && c.Value != nil {
			config[c.Name] = *c.Value
		}
	}
	return canonical(config)
}

// note takes down what exists, unless the script went on meanwhile: then it is not known what came first.
func (s *spy) note(before int, topics []kmsg.MetadataResponseTopic, configs []seenConfig) {
	b := s.w.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.moves != before {
		return
	}
	pending := b.inFlight()
	seen := map[string]bool{}
	for _, t := range topics {
		page := b.identify(*t.Topic, t.TopicID)
		if page == nil {
			s.w.t.Errorf("Metadata shows topic %s with the id %x, which nobody made", *t.Topic, t.TopicID)
			continue
		}
		seen[page.name] = true
		b.saw(page.name, page.index, pending)
		page.partitions.saw(int32(len(t.Partitions)), pending)
	}
	for name, set := range b.names {
		if seen[name] {
			continue
		}
		if !set.has(absent) {
			s.w.t.Errorf("Metadata does not show topic %s", name)
		}
		b.saw(name, absent, pending)
	}
	for _, c := range configs {
		b.config(c.typ, c.name, func(set *possible[string]) { set.saw(c.config, pending) })
	}
}

// fetch reads on in every partition.
func (s *spy) fetch(topics []kmsg.MetadataResponseTopic) error {
	q := kmsg.NewPtrFetchRequest()
	q.MaxWaitMillis, q.MaxBytes = 0, 1<<20
	for _, t := range topics {
		rt := kmsg.NewFetchRequestTopic()
		rt.TopicID = t.TopicID
		for i := range t.Partitions {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.PartitionMaxBytes = int32(i), 1<<20
			rp.FetchOffset = s.next(t.TopicID, int32(i))
			rt.Partitions = append(rt.Partitions, rp)
		}
		q.Topics = append(q.Topics, rt)
	}
	if len(q.Topics) == 0 {
		return nil
	}
	resp, err := s.c.try(q, 16)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.FetchResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				s.read(t.TopicID, p)
			}
		}
	}
	return nil
}

// page finds a partition's page; nil when there is none.
func (s *spy) page(id kproto.TopicID, partition int32) *partPage {
	i := slices.IndexFunc(s.w.book.topics, func(t *topicPage) bool { return t.id == id })
	if i < 0 || int(partition) >= len(s.w.book.topics[i].parts) {
		return nil
	}
	return s.w.book.topics[i].parts[partition]
}

func (s *spy) next(id kproto.TopicID, partition int32) int64 {
	s.w.book.mu.Lock()
	defer s.w.book.mu.Unlock()
	page := s.page(id, partition)
	if page == nil {
		return 0
	}
	next := page.start
	for o := range page.seen {
		next = max(next, o+1)
	}
	return next
}

func (s *spy) read(id kproto.TopicID, p kmsg.FetchResponseTopicPartition) {
	s.w.book.mu.Lock()
	defer s.w.book.mu.Unlock()
	page := s.page(id, p.Partition)
	if page == nil {
		return
	}
	page.high, page.start = max(page.high, p.HighWatermark), max(page.start, p.LogStartOffset)
	eachValue(p.RecordBatches, func(offset int64, v string) { page.seen[offset] = v })
}

// eachValue visits the records of whole batches.
func eachValue(b []byte, fn func(offset int64, v string)) {
	for len(b) > 0 {
		batch, rest, err := kproto.SplitBatch(b)
		if err != nil {
			return
		}
		i := int64(0)
		_ = batch.EachRecord(func(r kproto.Record) bool {
			fn(batch.BaseOffset()+i, string(r.Value))
			i++
			return true
		})
		b = rest
	}
}

func parseCanonical(s string) map[string]string {
	config := map[string]string{}
	for pair := range strings.SplitSeq(s, ";") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			config[k] = v
		}
	}
	return config
}
