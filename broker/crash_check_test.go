package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"

	"sluice/catalog"
	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// examiner holds disks after a power cut against promises.
type examiner struct{ rng *rand.Rand }

// examine starts a broker on a disk and looks whether the promises are kept; then once more after a power cut at some moment of that start,
// after one at its end, and after a clean stop.
func (x examiner) examine(img *vfs.Mem, p *pages) error {
	var nested *vfs.Mem
	at, choice := x.rng.IntN(60), x.choice()
	img.OnOp(func(op vfs.Op) {
		if op.N == at {
			nested = img.Crash(choice)
		}
	})
	first, after, err := restart(img, p)
	if err != nil {
		return err
	}
	if nested != nil {
		if _, _, err := restart(nested, p); err != nil {
			return fmt.Errorf("after a power cut before operation %d of that start: %w", at, err)
		}
	}
	img.OnOp(nil)
	return again(img.Crash(vfs.KeepNothing), after, first)
}

func (x examiner) choice() vfs.Chooser {
	switch x.rng.IntN(4) {
	case 0:
		return vfs.KeepNothing
	case 1:
		return vfs.KeepEverything
	}
	return vfs.Seeded(x.rng.Uint64())
}

// again starts on a disk that has been recovered: nothing may differ. Then it works on, and stops and starts cleanly.
func again(img *vfs.Mem, p *pages, want contents) error {
	b, logs, err := openImage(img)
	if err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	got, err := verify(b, logs, p)
	if err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("was %+v, is %+v", want, got)
	}
	if err == nil {
		err = goOn(b)
	}
	if err != nil {
		return fmt.Errorf("second start: %w", errors.Join(err, b.Close(context.Background())))
	}
	epoch, went := b.Epoch(), contentsOf(b)
	if err := b.Close(context.Background()); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	b, _, err = openImage(img)
	if err != nil {
		return fmt.Errorf("start after a clean stop: %w", err)
	}
	if again := contentsOf(b); !reflect.DeepEqual(again, went) || b.Epoch() <= epoch || !b.dir.Clean() {
		err = fmt.Errorf("clean stop (%v): was %+v, is %+v, epoch %d then %d", b.dir.Clean(), went, again, epoch, b.Epoch())
	}
	return errors.Join(err, b.Close(context.Background()))
}

// restart starts a broker on a disk, verifies, and lets it die. It gives the promises with what this start told.
func restart(img *vfs.Mem, p *pages) (contents, *pages, error) {
	b, logs, err := openImage(img)
	if err != nil {
		return contents{}, nil, err
	}
	s, err := verify(b, logs, p)
	var after *pages
	if err == nil {
		after, err = tell(b, p)
	}
	abandon(b, logs)
	return s, after, err
}

func openImage(img *vfs.Mem) (*Broker, *logCount, error) {
	logs := &logCount{}
	b, err := Start(crashOptions(img, logs))
	return b, logs, err
}

// abandon ends a broker as a kill does: nothing of what it still does reaches anything that is looked at.
func abandon(b *Broker, logs *logCount) {
	logs.finished.Store(true)
	_ = b.Close(canceled)
}

var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// tell has the broker give a producer id, and adds to the promises what it has told.
func tell(b *Broker, p *pages) (*pages, error) {
	type result struct {
		id  int64
		err error
	}
	c := make(chan result, 1)
	b.pids.next(func(id int64, err error) { c <- result{id, err} })
	r := <-c
	if r.err != nil || r.id <= p.pid {
		return nil, fmt.Errorf("producer id %d (%v) after %d", r.id, r.err, p.pid)
	}
	after := p.clone()
	after.cluster, after.epoch, after.pid = b.ClusterID(), b.Epoch(), r.id
	return after, nil
}

// contents is what a broker has, apart from its epoch.
type contents struct {
	Cluster string
	Topics  []topicContents
	Brokers map[string]string
}

type topicContents struct {
	Name       string
	ID         kproto.TopicID
	Partitions int32
	Config     string
	Parts      []partContents
}

type partContents struct {
	Offsets log.Offsets
	Values  []string
	Err     string
}

func contentsOf(b *Broker) contents {
	layers := b.settings.Load().layers
	s := contents{Cluster: b.ClusterID(), Brokers: map[string]string{"": canonical(layers.DynamicDefault), "1": canonical(layers.Dynamic)}}
	quotaContents(b, s.Brokers)
	b.topics.each(func(t *topic) bool {
		raw := t.raw()
		x := topicContents{t.name, t.id, raw.Partitions, canonical(raw.Config), nil}
		for i := range raw.Partitions {
			x.Parts = append(x.Parts, partOf(t.partition(i)))
		}
		s.Topics = append(s.Topics, x)
		return true
	})
	return s
}

func partOf(l *log.Log) partContents {
	o, err := l.Offsets()
	s := partContents{Offsets: o}
	for at := o.Start; err == nil && at < o.High; {
		var b []byte
		var next int64
		if b, next, err = l.ReadBytes(nil, at, o.High, 1<<20); err == nil && next <= at {
			err = fmt.Errorf("nothing at offset %d", at)
		}
		eachValue(b, func(offset int64, v string) {
			if offset >= o.Start {
				s.Values = append(s.Values, v)
			}
		})
		at = next
	}
	if err != nil {
		s.Err = err.Error()
	}
	return s
}

// verify holds a broker that has just been started against the promises.
func verify(b *Broker, logs *logCount, p *pages) (contents, error) {
	p = p.clone() // ids are noted in it
	s := contentsOf(b)
	if p.cluster != "" && s.Cluster != p.cluster {
		return s, fmt.Errorf("cluster %s became %s", p.cluster, s.Cluster)
	}
	if b.Epoch() <= p.epoch {
		return s, fmt.Errorf("epoch %d after %d", b.Epoch(), p.epoch)
	}
	if errs := logs.errors(); len(errs) > 0 {
		return s, fmt.Errorf("logged: %s", strings.Join(errs, "; "))
	}
	if err := p.checkTopics(s); err != nil {
		return s, err
	}
	for name, set := range p.brokers {
		if got := s.Brokers[name]; !set.has(got) {
			return s, fmt.Errorf("broker %q: config %q, want one of %q", name, got, set)
		}
	}
	return s, p.checkFiles(b, logs)
}

func (p *pages) checkTopics(s contents) error {
	there := map[string]bool{}
	for _, t := range s.Topics {
		there[t.Name] = true
		page := p.identify(t.Name, t.ID)
		if page == nil || page.name != t.Name || !p.names[t.Name].has(page.index) {
			return fmt.Errorf("topic %s has the id %x, want one of the topics %v", t.Name, t.ID, p.names[t.Name])
		}
		if !page.partitions.has(t.Partitions) || !page.config.has(t.Config) {
			return fmt.Errorf("topic %s has %d partitions and the config %q, want one of %v and %q", t.Name, t.Partitions, t.Config, page.partitions, page.config)
		}
		for i, part := range t.Parts {
			if err := page.parts[i].check(page.index, int32(i), part); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Name, i, err)
			}
		}
	}
	for name, set := range p.names {
		if !there[name] && !set.has(absent) {
			return fmt.Errorf("topic %s is lost", name)
		}
	}
	for _, name := range p.together {
		if there[name] != there[p.together[0]] {
			return fmt.Errorf("of the topics %v of one request some are there, and others are not: %v", p.together, there)
		}
	}
	return nil
}

// check holds one partition against its page.
func (p *partPage) check(topic int, partition int32, s partContents) error {
	o := s.Offsets
	switch {
	case s.Err != "":
		return errors.New(s.Err)
	case o.Start < p.start || o.Start > max(p.start, p.tryStart):
		return fmt.Errorf("start %d, want %d to %d", o.Start, p.start, p.tryStart)
	case o.High != o.End || o.High < p.high:
		return fmt.Errorf("high watermark %d of %d, %d was told", o.High, o.End, p.high)
	case o.Start+int64(len(s.Values)) != o.High:
		return fmt.Errorf("%d records from %d to %d", len(s.Values), o.Start, o.High)
	}
	for offset, v := range p.seen {
		if at := offset - o.Start; at >= 0 && (at >= int64(len(s.Values)) || s.Values[at] != v) {
			return fmt.Errorf("record %s was seen at offset %d; there is %v from %d on", v, offset, s.Values, o.Start)
		}
	}
	if err := p.checkAcked(topic, partition, s); err != nil {
		return err
	}
	return p.checkOrigin(topic, partition, s)
}

func (p *partPage) checkAcked(topic int, partition int32, s partContents) error {
	for n, try := range p.tries {
		for i := range try.records {
			at := try.base + int64(i) - s.Offsets.Start
			if try.base < 0 || at < 0 {
				continue
			}
			if want := value(topic, partition, n, i); at >= int64(len(s.Values)) || s.Values[at] != want {
				return fmt.Errorf("acknowledged record %s at offset %d; there is %v from %d on", want, try.base+int64(i), s.Values, s.Offsets.Start)
			}
		}
	}
	return nil
}

// checkOrigin sees to it that every record was produced to this very partition, once, and in whole batches.
func (p *partPage) checkOrigin(topic int, partition int32, s partContents) error {
	next := map[int]int{} // record awaited, by try; the start may lie inside a batch
	for at, v := range s.Values {
		t, part, n, i, err := parseValue(v)
		if err != nil || t != topic || part != partition || n >= len(p.tries) || i >= p.tries[n].records {
			return fmt.Errorf("offset %d holds %q, which was not produced to topic %d partition %d", s.Offsets.Start+int64(at), v, topic, partition)
		}
		if want, begun := next[n]; begun && i != want || !begun && i != 0 && at != 0 {
			return fmt.Errorf("offset %d holds %s: %v", s.Offsets.Start+int64(at), v, s.Values)
		}
		next[n] = i + 1
	}
	for n, i := range next {
		if i != p.tries[n].records {
			return fmt.Errorf("batch %d is not whole: %v", n, s.Values)
		}
	}
	return nil
}

// checkFiles sees to it that no directory is left of what was deleted, and that one that nobody knows is kept and reported.
func (p *pages) checkFiles(b *Broker, logs *logCount) error {
	fsys := b.opts.FS
	entries, err := fsys.ReadDir(crashDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-delete") {
			return fmt.Errorf("%s remains", e.Name())
		}
	}
	found, err := b.dir.Partitions()
	if err != nil {
		return err
	}
	aliens := 0
	for _, f := range found {
		t := b.topics.byName(f.Topic)
		switch {
		case f.Topic == catalogTopic:
		case f.Topic == "alien":
			aliens++
		case t == nil || f.Partition >= t.partitions() || f.ID != t.id && !f.ID.IsZero():
			return fmt.Errorf("%s (id %x) remains of a topic that is not there", f.Path, f.ID)
		}
	}
	if !p.alien {
		return nil
	}
	text, err := vfs.ReadFile(fsys, filepath.Join(crashDir, alienDir, "partition.metadata"), 1<<10)
	if aliens != 1 || string(text) != alienMetadata || logs.reported() != 1 {
		return fmt.Errorf("the unknown directory: found %d times, reported %d times, %q %v", aliens, logs.reported(), text, err)
	}
	return nil
}

// goOn uses a broker: every partition takes an append, and a topic that is deleted and made again is empty.
func goOn(b *Broker) error {
	for _, t := range b.topics.list() {
		for i := range t.partitions() {
			if err := appendOne(t.partition(i)); err != nil {
				return fmt.Errorf("append to %s-%d: %w", t.name, i, err)
			}
		}
	}
	name, n := "fresh", int32(1)
	if all := b.topics.list(); len(all) > 0 {
		t := all[0]
		name, n = t.name, t.partitions()
		if err := decide(b, catalog.DeleteTopics{Topics: []catalog.TopicRef{{ID: t.id}}}); err != nil {
			return err
		}
	}
	id := newUUID()
	if err := decide(b, catalog.CreateTopics{Topics: []catalog.NewTopic{{Name: name, ID: id, Partitions: n}}}); err != nil {
		return err
	}
	t := b.topics.byName(name)
	if t == nil || t.id != id {
		return fmt.Errorf("topic %s was made, and is not known", name)
	}
	for i := range n {
		o, err := t.partition(i).Offsets()
		if err != nil || o != (log.Offsets{}) {
			return fmt.Errorf("the new topic %s begins with %+v (%v)", name, o, err)
		}
		if err := appendOne(t.partition(i)); err != nil {
			return fmt.Errorf("append to the new topic %s: %w", name, err)
		}
	}
	return nil
}

func decide(b *Broker, event any) error {
	v, err := b.catalog.Ask(context.Background(), event)
	if err != nil {
		return err
	}
	return v.([]catalog.TopicResult)[0].Err
}

func appendOne(l *log.Log) error {
	before, err := l.Offsets()
	if err != nil {
		return err
	}
	kb := kproto.NewBuilder(kproto.None)
	kb.Add(kproto.Record{Value: []byte("more")})
	a, err := l.Append(kb.Batch(), log.AppendOptions{})
	if err == nil {
		err = a.Ticket.Wait(context.Background())
	}
	if err == nil && a.Base != before.End {
		err = fmt.Errorf("offset %d after the end %d", a.Base, before.End)
	}
	return err
}
