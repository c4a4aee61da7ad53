package broker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// expected is a topic as the model of TestRandomLives knows it.
type expected struct {
	id         [16]byte
	partitions int32
	retention  int64
	records    map[int32]int64 // by partition
}

// TestRandomLives makes, changes, fills and deletes topics, stops the broker and cuts the power, in random order, and
// compares what clients see with a model after each step that a client was told of. All the while, the topics and the
// catalog are compacted.
func TestRandomLives(t *testing.T) {
	lives, steps := 6, 60
	if testing.Short() {
		lives = 2
	}
	for seed := range lives {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			l := &life{node: startNode(t, cleanedSoon()), t: t, rnd: rand.New(rand.NewPCG(1, uint64(seed))), topics: map[string]*expected{}, ids: map[[16]byte]bool{}}
			l.c = l.dial()
			l.cleanCatalogSoon()
			for range steps {
				what := l.step()
				if l.compare(what); t.Failed() {
					return
				}
			}
		})
	}
}

type life struct {
	*node
	t      *testing.T
	rnd    *rand.Rand
	c      *client
	topics map[string]*expected
	ids    map[[16]byte]bool // ever given
}

func (l *life) step() string {
	name := fmt.Sprintf("topic-%d", l.rnd.IntN(4)) // a name with a dash, as directories have one too
	x := l.topics[name]
	switch n := l.rnd.IntN(20); {
	case n == 0:
		l.restart()
		l.cleanCatalogSoon()
		l.c = l.dial()
		return "restart"
	case n == 1:
		l.powerCut()
		l.cleanCatalogSoon()
		l.c = l.dial()
		return "power cut"
	case x == nil:
		return l.makeTopic(name)
	case n < 5:
		l.c.mustDelete(name)
		delete(l.topics, name)
		return "delete " + name
	case n < 8:
		x.partitions++
		l.expect(0, l.c.grow(3, false, growEntry(name, x.partitions))[0].ErrorCode)
		return "grow " + name
	case n < 11:
		x.retention = 1000 + l.rnd.Int64N(1000)
		l.c.set(typeTopic, name, "retention.ms", strconv.FormatInt(x.retention, 10))
		return "alter " + name
	default:
		p := l.rnd.Int32N(x.partitions)
		got := l.c.produce(name, p, "x")
		l.expect(0, got.ErrorCode)
		l.expect(x.records[p], got.BaseOffset)
		x.records[p]++
		return "produce to " + name
	}
}

func (l *life) makeTopic(name string) string {
	partitions := 1 + l.rnd.Int32N(3)
	got := l.c.create(7, false, createEntry(name, partitions, 1))[0]
	l.expect(0, got.ErrorCode)
	l.expect(false, l.ids[got.TopicID])
	l.ids[got.TopicID] = true
	l.topics[name] = &expected{got.TopicID, partitions, 604_800_000, map[int32]int64{}}
	return "create " + name
}

func (l *life) expect(want, got any) {
	l.t.Helper()
	if fmt.Sprint(want) != fmt.Sprint(got) {
		l.t.Errorf("got %v, want %v", got, want)
	}
}

func (l *life) compare(what string) {
	var want []string
	partitions := 0
	for name, x := range l.topics {
		want = append(want, name)
		partitions += int(x.partitions)
		got := l.Broker.topics.byName(name)
		if got == nil || got.id != x.id || got.partitions() != x.partitions || got.config().RetentionMs != x.retention {
			l.t.Errorf("after %s: %s is %+v, want %+v", what, name, got, x)
			continue
		}
		for p := range x.partitions {
			if o, err := got.partition(p).Offsets(); err != nil || o.End != x.records[p] {
				l.t.Errorf("after %s: %s-%d has %+v %v, want %d records", what, name, p, o, err, x.records[p])
			}
		}
	}
	slices.Sort(want)
	if got := l.c.names(); !slices.Equal(got, want) {
		l.t.Errorf("after %s: topics %v, want %v", what, got, want)
	}
	if topics, n := l.Broker.topics.count(); topics != len(want) || n != partitions {
		l.t.Errorf("after %s: %d topics with %d partitions are counted, want %d with %d", what, topics, n, len(want), partitions)
	}
}
