package log

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// upTo admits batches up to a number, and keeps what it was asked.
type upTo struct {
	left  int
	asked []Header
}

func (u *upTo) Admit(h Header) bool {
	u.asked = append(u.asked, h)
	u.left--
	return u.left >= 0
}

type admitAll struct{}

func (admitAll) Admit(Header) bool { return true }

// Whatever a range holds and however many of its batches are remembered, who trims it is asked about each batch in
// order, and the range ends where it says.
func TestTrim(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fs := vfs.NewMem()
	if err := fs.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.SegmentBytes, c.Durability = 60_000, OS
	l := openDir(t, fs).Log("t", testTopic, 0, c)
	var all []Header
	for range 200 {
		b := makeBatch(batchSpec{records: 1 + rnd.IntN(3), size: rnd.IntN(3) * rnd.IntN(3000)})
		control := rnd.IntN(10) == 0
		if control {
			b = kproto.EndMarker{Commit: true}.Batch(7, 0, 0)
		}
		a, err := l.Append(b, AppendOptions{Internal: true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Header{Base: a.Base, Last: a.Base + int64(b.LastOffsetDelta()), Size: int32(len(b)), Records: b.Count(), Control: control})
	}
	end := all[len(all)-1].Last + 1
	for range 400 {
		first := rnd.IntN(len(all))
		if rnd.IntN(2) == 0 {
			first = len(all) - 1 - rnd.IntN(2*tailLength)
		}
		r, err := l.Read(all[first].Base, end, rnd.IntN(60_000), true)
		if err != nil {
			t.Fatal(err)
		}
		whole := r
		n := slices.IndexFunc(all, func(h Header) bool { return h.Last+1 == r.Next }) - first + 1
		take := &upTo{left: rnd.IntN(n + 2)}
		want := min(take.left, n)
		if err := l.Trim(&r, take); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(take.asked, all[first:first+min(want+1, n)]) {
			t.Fatalf("from %d: asked about %v", first, take.asked)
		}
		size, next := int64(0), all[first].Base
		for _, h := range all[first : first+want] {
			size += int64(h.Size)
			next = h.Last + 1
		}
		if r.Len != size || r.Next != next || size > 0 && (r.Pos != whole.Pos || r.File != whole.File) {
			t.Fatalf("%d of %d batches from %d: %+v, want %d bytes to %d", want, n, first, r, size, next)
		}
		r.Release()
	}
}

// A range ends before damage; if it begins with some that is an error, and the range stands.
func TestTrimDamage(t *testing.T) {
	size := int64(len(makeBatch(batchSpec{size: 100})))
	for _, batch := range []int64{0, 3} { // the damaged one
		fs := vfs.NewMem()
		if err := fs.Mkdir("data", 0o700); err != nil {
			t.Fatal(err)
		}
		c := DefaultConfig()
		c.Durability = OS
		l := openDir(t, fs).Log("t", testTopic, 0, c)
		for range 2 * tailLength { // the first are not remembered
			mustAppend(t, l, batchSpec{size: 100})
		}
		r, err := l.Read(0, 2*tailLength, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		f, err := fs.OpenFile("data/t-0/00000000000000000000.log", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, kproto.HeaderSize), batch*size); err != nil {
			t.Fatal(err)
		}
		f.Close()
		whole := r.Len
		err = l.Trim(&r, &upTo{left: 1000})
		switch {
		case batch == 0 && (!errors.Is(err, ErrDamaged) || r.Len != whole):
			t.Errorf("damage at the beginning: %v, %d of %d bytes", err, r.Len, whole)
		case batch > 0 && (err != nil || r.Len != batch*size || r.Next != batch):
			t.Errorf("damage after %d batches: %v, %d bytes to %d", batch, err, r.Len, r.Next)
		}
		r.Release()
	}
}
