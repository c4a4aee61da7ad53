package throttle

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

// A table of claims is a map by claimant, however they come and go.
func TestClaimsAreAMap(t *testing.T) {
	topics := []*Topic{{}, {}, {}}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(1, seed))
		names := []string{"a", "b", "c", "d"}[:1+r.IntN(4)]
		var table claims
		want := map[claimant]*claim{}
		for range 3000 {
			who := claimant{topics[r.IntN(3)], r.Int32N(int32(1 + seed)), names[r.IntN(len(names))]}
			switch cl := table.find(who); {
			case cl != want[who]:
				t.Fatalf("seed %d: %v has %p, want %p", seed, who, cl, want[who])
			case cl == nil:
				want[who] = newClaim(nil, who)
				table.add(want[who])
			case r.IntN(2) == 0:
				table.remove(cl)
				table.remove(cl) // the second time it is not there
				delete(want, who)
			}
			if table.count != len(want) {
				t.Fatalf("seed %d: %d are counted, want %d", seed, table.count, len(want))
			}
		}
		seen := map[*claim]bool{}
		table.each(func(cl *claim) {
			if seen[cl] = true; want[cl.who()] != cl {
				t.Fatalf("seed %d: %v is shown", seed, cl.who())
			}
			if r.IntN(2) == 0 {
				table.remove(cl)
				delete(want, cl.who())
			}
		})
		for who, cl := range want {
			if !seen[cl] || table.find(who) != cl {
				t.Fatalf("seed %d: %v was not shown, or is lost", seed, who)
			}
		}
	}
}

// Those who wait do so in the order in which they came, whoever leaves.
func TestWatchesOfAClaimKeepTheirOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cl := newClaim(nil, claimant{})
	var want []*Watch
	for range 2000 {
		if len(want) == 0 || r.IntN(5) < 3 && len(want) < 10 {
			w := &Watch{since: Instant(time.Second)}
			cl.append(w)
			want = append(want, w)
		} else {
			i := r.IntN(len(want))
			cl.unlink(want[i])
			want = append(want[:i:i], want[i+1:]...)
		}
		w := cl.first
		for i, x := range want {
			if w != x {
				t.Fatalf("%p is at %d, want %p", w, i, x)
			}
			w = w.next
		}
		if w != nil {
			t.Fatal("there are more")
		}
	}
}

// There may be a hundred thousand claims, and a watch and a refusal for each.
func TestSizesForMany(t *testing.T) {
	for name, size := range map[string][2]uintptr{
		"claim":   {unsafe.Sizeof(claim{}), 80},
		"Watch":   {unsafe.Sizeof(Watch{}), 56},
		"Refusal": {unsafe.Sizeof(Refusal{}), 24},
	} {
		if size[0] > size[1] {
			t.Errorf("a %s takes %d bytes, want %d at most", name, size[0], size[1])
		}
	}
}
