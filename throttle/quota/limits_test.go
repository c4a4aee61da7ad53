package quota

import (
	"fmt"
	"testing"
	"time"
)

var asKafka = Settings{Windows: 11, Window: time.Second, MutationWindows: 11, MutationWindow: time.Second}

const second = Instant(time.Second)

// limits has the quotas of one kind.
func limits(k Kind, of map[Entity]float64) *Limits {
	l := &Limits{}
	l.configure(k, of, 0)
	return l
}

func (l *Limits) configure(k Kind, of map[Entity]float64, now Instant) {
	var all [Kinds]map[Entity]float64
	all[k] = of
	l.Configure(all, asKafka, now)
}

func (l *Limits) states() (list []State) {
	l.Each(0, func(s State) { list = append(list, s) })
	return list
}

// The first quota of Kafka's order counts, and says who shares it.
func TestPrecedence(t *testing.T) {
	all := []Entity{
		{Named("u"), Named("c")}, {Named("u"), Default()}, {User: Named("u")},
		{Default(), Named("c")}, {Default(), Default()}, {User: Default()},
		{ClientID: Named("c")}, {ClientID: Default()},
	}
	owners := []string{"u/c", "u/c", "u/", "u/c", "u/c", "u/", "/c", "/c"}
	for i := range all {
		of := map[Entity]float64{{Named("other"), Named("c")}: 1000, {Named("u"), Named("other")}: 2000, {ClientID: Named("other")}: 3000}
		for j := i; j < len(all); j++ {
			of[all[j]] = float64(j + 1)
		}
		m := limits(Fetch, of).Client("u", "c", 0).Meter(Fetch)
		owner := m.key.user + "/" + m.key.client
		if m.rate != float64(i+1) || owner != owners[i] {
			t.Errorf("without the first %d: the quota %v of %s, want %d of %s", i, m.rate, owner, i+1, owners[i])
		}
	}
}

func TestWhoHasNoQuotaHasNoMeter(t *testing.T) {
	l := limits(Fetch, map[Entity]float64{{User: Named("u")}: 1, {ClientID: Named("")}: 2})
	for _, tt := range []struct {
		user, client string
		want         float64
	}{{"u", "c", 1}, {"v", "c", 0}, {"v", "", 2}, {"", "", 2}} {
		m := l.Client(tt.user, tt.client, 0).Meter(Fetch)
		if got := rate(m); got != tt.want {
			t.Errorf("%q/%q has %v, want %v", tt.user, tt.client, got, tt.want)
		}
		if l.Client(tt.user, tt.client, 0).Meter(Produce) != nil {
			t.Error("a quota of another kind")
		}
	}
	if n := len(l.states()); n != 2 {
		t.Errorf("%d meters, want 2", n)
	}
	l.configure(Fetch, nil, 0)
	if l.Active() || l.Client("u", "c", 0) != nil || l.Client("u", "c", 0).Meter(Fetch) != nil || len(l.states()) != 0 {
		t.Error("there is something without a quota")
	}
}

func rate(m *Meter) float64 {
	if m == nil {
		return 0
	}
	return m.rate
}

// Those who share a meter, and no others, have the same.
func TestSharing(t *testing.T) {
	for _, tt := range []struct {
		rule Entity
		want string // how many meters the clients u/a, u/b, v/a, v/b have
	}{
		{Entity{User: Default()}, "0011"}, {Entity{ClientID: Default()}, "0101"}, {Entity{Default(), Default()}, "0123"},
		{Entity{User: Named("u")}, "00--"}, {Entity{ClientID: Named("a")}, "0-0-"}, {Entity{Named("u"), Default()}, "01--"},
	} {
		l := limits(Produce, map[Entity]float64{tt.rule: 5})
		seen, got := map[*Meter]int{}, ""
		for _, who := range [][2]string{{"u", "a"}, {"u", "b"}, {"v", "a"}, {"v", "b"}} {
			m := l.Client(who[0], who[1], 0).Meter(Produce)
			if _, ok := seen[m]; !ok {
				seen[m] = len(seen)
			}
			if m == nil {
				delete(seen, m)
				got += "-"
			} else {
				got += fmt.Sprint(seen[m])
			}
		}
		if got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.rule, got, tt.want)
		}
	}
}

// A change is in force at the next request, and what was used stays used.
func TestConfigure(t *testing.T) {
	u, v := Entity{User: Named("u")}, Entity{Named("u"), Named("c")}
	l := limits(Produce, map[Entity]float64{u: 100})
	c := l.Client("u", "c", 0)
	m := c.Meter(Produce)
	if wait := m.Use(2000, 0); wait != 10*time.Second {
		t.Fatalf("held for %v", wait)
	}
	l.configure(Produce, map[Entity]float64{u: 200}, 0)
	if l.Current(c) {
		t.Error("the meters are current after a change")
	}
	if c = l.Client("u", "c", 0); c.Meter(Produce) != m || !l.Current(c) {
		t.Error("another meter after a change of the rate")
	}
	if wait := m.Use(1000, 0); wait != 5*time.Second {
		t.Errorf("with twice the rate: held for %v", wait)
	}
	l.configure(Produce, map[Entity]float64{u: 200, v: 1}, 0)
	if own := l.Client("u", "c", 0).Meter(Produce); own == m || own.rate != 1 {
		t.Error("a nearer quota does not count")
	}
	l.configure(Produce, map[Entity]float64{v: 1}, 0)
	if waits, wait := l.Retired(Produce); waits != 2 || wait != 15*time.Second || !m.gone.Load() {
		t.Errorf("of what is gone: %d, %v", waits, wait)
	}
}

// A client that changes its name takes up a bounded room, and gets no more than one quota beyond it.
func TestManyNames(t *testing.T) {
	l := limits(Fetch, map[Entity]float64{{ClientID: Default()}: 10, {ClientID: Named("known")}: 20})
	for i := range MaxMeters {
		l.Client("u", fmt.Sprint(i), 0)
	}
	rest := l.Client("u", "one more", 0).Meter(Fetch)
	if again := l.Client("v", "and another", 0).Meter(Fetch); again != rest || rest.rate != 10 || !rest.key.rest {
		t.Error("those that are too many do not share")
	}
	if m := l.Client("u", "known", 0).Meter(Fetch); m.rate != 20 || m.key.rest {
		t.Error("a quota with a name has no meter of its own")
	}
	if m := l.Client("u", "7", 0).Meter(Fetch); m.key.rest {
		t.Error("who has a meter has lost it")
	}
	if n := len(l.states()); n != MaxMeters+2 {
		t.Errorf("%d meters", n)
	}
	l.configure(Fetch, map[Entity]float64{{ClientID: Default()}: 30}, 0)
	if rest.rate != 30 || l.crowd != MaxMeters+1 {
		t.Errorf("after a change: %v, %d", rest.rate, l.crowd)
	}
	later := Instant(crowdedDrop)
	if m := l.Client("u", "late", later).Meter(Fetch); m.key.rest || len(l.states()) != 1 {
		t.Errorf("idle meters stay: %d", len(l.states()))
	}
}

// Meters are dropped after an hour, and not while there is something on them.
func TestSweep(t *testing.T) {
	l := limits(Fetch, map[Entity]float64{{ClientID: Default()}: 1})
	idle, busy, owing := l.Client("", "idle", 0).Meter(Fetch), l.Client("", "busy", 0), l.Client("", "owing", 0).Meter(Fetch)
	owing.Use(1e6, 0)
	busy.Meter(Fetch).Use(1, Instant(30*time.Minute))
	l.Sweep(Instant(59 * time.Minute))
	if n := len(l.states()); n != 3 {
		t.Fatalf("%d meters before an hour", n)
	}
	l.Sweep(Instant(61 * time.Minute))
	if !idle.gone.Load() || owing.gone.Load() || !l.Current(busy) || len(l.states()) != 2 {
		t.Errorf("after an hour: %+v", l.states())
	}
}

func TestLongNames(t *testing.T) {
	l := limits(Fetch, map[Entity]float64{{ClientID: Default()}: 1})
	long := make([]byte, 4*maxName)
	if m := l.Client("", string(long), 0).Meter(Fetch); len(m.key.client) != maxName {
		t.Errorf("a name of %d bytes is kept", len(m.key.client))
	}
}
