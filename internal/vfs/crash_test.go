package vfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// crashCases are scripts for a Mem, see play, with all images that a power cut at their end
// may leave, see show: no other may come up and none may be missing.
var crashCases = []struct {
	name    string
	script  string
	garbage bool // lost sectors may be garbage too
	ordered bool // directories have a journal
	want    []string
}{{
	name:   "all synced",
	script: "create f; write f 0 x700; sync f; syncdir /",
	want:   []string{"f=x700"},
}, {
	name:   "a sync of the file does not make its entry durable",
	script: "create f; write f 0 x3; sync f",
	want:   []string{"", "f=x3"},
}, {
	name:   "an entry without its data",
	script: "create f; write f 0 x3; syncdir /",
	want:   []string{"f=", "f=.3", "f=x3"},
}, {
	name:   "a torn write",
	script: "create f; write f 0 a1536; sync f; syncdir /; write f 256 b1024",
	want: []string{
		"f=a1536", "f=a256b256a1024", "f=a512b512a512", "f=a1024b256a256",
		"f=a256b768a512", "f=a256b256a512b256a256", "f=a512b768a256", "f=a256b1024a256",
	},
}, {
	name:   "overlapping writes",
	script: "create f; write f 0 a512; sync f; syncdir /; write f 0 b512; write f 0 c512",
	want:   []string{"f=a512", "f=b512", "f=c512"},
}, {
	name:   "a sector holds the earlier writes to it",
	script: "create f; write f 0 a300; sync f; syncdir /; write f 0 b100; write f 100 c100",
	want:   []string{"f=a300", "f=b100a200", "f=b100c100a100"},
}, {
	name:   "an append: its size, its sectors",
	script: "create f; write f 0 a512; sync f; syncdir /; write f 512 b600",
	want:   []string{"f=a512", "f=a512.600", "f=a512b512.88", "f=a512.512b88", "f=a512b600"},
}, {
	name:    "an append with garbage where no data was",
	script:  "create f; write f 0 a500; sync f; syncdir /; write f 500 b500",
	garbage: true,
	want: []string{
		"f=a500", "f=a500.500", "f=a500b12.488", "f=a500.12b488", "f=a500b500",
		"f=a500.12?488", "f=a500b12?488",
	},
}, {
	name:    "no garbage over data that is there",
	script:  "create f; write f 0 a512; sync f; syncdir /; trunc f 0; write f 0 b512",
	garbage: true,
	want:    []string{"f=", "f=a512", "f=b512", "f=.512", "f=?512"},
}, {
	name:   "a cut",
	script: "create f; write f 0 a1000; sync f; syncdir /; trunc f 300; trunc f 1000",
	want:   []string{"f=a1000", "f=a300", "f=a300.700"},
}, {
	name:   "a preallocation has no garbage",
	script: "create f; sync f; syncdir /; trunc f 1000", garbage: true,
	want: []string{"f=", "f=.1000"},
}, {
	name:   "O_TRUNC",
	script: "create f; write f 0 a9; sync f; syncdir /; creat f",
	want:   []string{"f=a9", "f="},
}, {
	name:   "a removed file may come back",
	script: "create f; write f 0 a9; sync f; syncdir /; remove f",
	want:   []string{"", "f=a9"},
}, {
	name:   "a removed file is gone",
	script: "create f; syncdir /; remove f; syncdir /",
	want:   []string{""},
}, {
	name:   "a file made anew",
	script: "create f; write f 0 a9; sync f; syncdir /; remove f; create f; write f 0 b9; sync f",
	want:   []string{"", "f=a9", "f=b9"},
}, {
	name:   "entries survive one by one",
	script: "create f; create g",
	want:   []string{"", "f=", "g=", "f= g="},
}, {
	name:   "a journal keeps a prefix",
	script: "create f; create g; create h", ordered: true,
	want: []string{"", "f=", "f= g=", "f= g= h="},
}, {
	name:   "each directory has its own prefix",
	script: "mkdir d; syncdir /; create d/x; create f; create d/y", ordered: true,
	want: []string{"d/", "d/ f=", "d/ d/x=", "d/ d/x= f=", "d/ d/x= d/y=", "d/ d/x= d/y= f="},
}, {
	name:   "a rename is atomic",
	script: "create f; write f 0 a1; sync f; create g; write g 0 b1; sync g; syncdir /; rename g f",
	want:   []string{"f=a1 g=b1", "f=b1"},
}, {
	name:   "a rename of a file whose data is lost",
	script: "create f; write f 0 a1; sync f; create g; syncdir /; write g 0 b1; rename g f",
	want:   []string{"f=a1 g=", "f=a1 g=.1", "f=a1 g=b1", "f=", "f=.1", "f=b1"},
}, {
	name:   "a rename holds what a later change of its names builds on",
	script: "create f; write f 0 a1; sync f; syncdir /; rename f g; create f",
	want:   []string{"f=a1", "g=a1", "f= g=a1"},
}, {
	name:   "a chain of renames",
	script: "create f; syncdir /; rename f g; rename g h",
	want:   []string{"f=", "g=", "h="},
}, {
	name:   "a rename without the create before it",
	script: "create f; rename f g",
	want:   []string{"", "f=", "g="},
}, {
	name:   "a rename between directories",
	script: "mkdir a; mkdir b; create a/f; syncdir /; syncdir a; rename a/f b/f",
	want:   []string{"a/ a/f= b/", "a/ b/ b/f="},
}, {
	name:   "a rename between directories, the new one synced",
	script: "mkdir a; mkdir b; create a/f; syncdir /; syncdir a; rename a/f b/f; syncdir b",
	want:   []string{"a/ b/ b/f="},
}, {
	name:   "a rename between directories, the old one synced",
	script: "mkdir a; mkdir b; create a/f; syncdir /; syncdir a; rename a/f b/f; syncdir a",
	want:   []string{"a/ b/ b/f="},
}, {
	name:   "a rename half synced, then undone by a removal",
	script: "mkdir a; mkdir b; create a/f; syncdir /; syncdir a; rename a/f b/f; remove b/f; syncdir b",
	want:   []string{"a/ b/"},
}, {
	name:   "a new directory takes along what is in it",
	script: "mkdir d; create d/f; write d/f 0 a1; sync d/f; syncdir d",
	want:   []string{"", "d/ d/f=a1"},
}, {
	name:   "a directory that moves",
	script: "mkdir d; create d/f; syncdir d; syncdir /; rename d e; create e/g",
	want:   []string{"d/ d/f=", "d/ d/f= d/g=", "e/ e/f=", "e/ e/f= e/g="},
}, {
	name:   "a removed directory that comes back, with or without its file",
	script: "mkdir d; create d/f; syncdir d; syncdir /; remove d/f; remove d",
	want:   []string{"", "d/", "d/ d/f="},
}, {
	name:   "an unlinked file leaves nothing",
	script: "create f; syncdir /; open f; remove f; syncdir /; write f 0 a9",
	want:   []string{""},
}}

func TestCrash(t *testing.T) {
	for _, c := range crashCases {
		t.Run(c.name, func(t *testing.T) {
			m := NewMem()
			play(t, m, c.script)
			live, durable := show(m), show(m.Crash(KeepNothing))
			got := map[string]bool{}
			options := []Fate{Lost, Kept}
			if c.garbage {
				options = append(options, Garbage)
			}
			for choice := range everyChoice(options) {
				if c.ordered {
					choice = Ordered(choice)
				}
				image := m.Crash(choice)
				survived := show(image)
				got[survived] = true
				scribble(t, image)
				if after := show(image.Crash(KeepNothing)); after != survived {
					t.Errorf("a second crash leaves %s of %s", after, survived)
				}
			}
			want := map[string]bool{}
			for _, w := range c.want {
				want[w] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("images\n  %s\nwant\n  %s", list(got), list(want))
			}
			if after := show(m); after != live {
				t.Errorf("the crashed disk changed: %s, was %s", after, live)
			}
			if after := show(m.Crash(KeepNothing)); after != durable {
				t.Errorf("what is durable changed: %s, was %s", after, durable)
			}
		})
	}
}

// scribble overwrites each file in the root of the disk, and adds one.
func scribble(t testing.TB, m *Mem) {
	entries, err := m.ReadDir("/")
	check(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			write(t, create(t, m, e.Name()), 0, strings.Repeat("z", 2000))
		}
	}
	create(t, m, "new")
}

func list(set map[string]bool) string {
	return fmt.Sprintf("%q", slices.Sorted(maps.Keys(set)))
}

// everyChoice yields a chooser for each sequence of answers from options.
func everyChoice(options []Fate) func(yield func(Chooser) bool) {
	return func(yield func(Chooser) bool) {
		var digits []int // an odometer with as many wheels as questions
		for {
			asked := 0
			ok := yield(ChooserFunc(func(Item, int) Fate {
				if asked == len(digits) {
					digits = append(digits, 0)
				}
				asked++
				return options[digits[asked-1]]
			}))
			i := len(digits) - 1
			for ; i >= 0 && digits[i] == len(options)-1; i-- {
				digits[i] = 0
			}
			if !ok || i < 0 {
				return
			}
			digits[i]++
		}
	}
}

// TestCrashAtEveryOperation cuts the power before each operation of two ways to replace a
// file: the right one leaves the old or the new content, and the images find the wrong one.
func TestCrashAtEveryOperation(t *testing.T) {
	unsynced := func(fsys FS, name string, data []byte, perm fs.FileMode) error {
		f, err := fsys.OpenFile(name+".tmp", os.O_RDWR|os.O_CREATE, perm)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(data, 0); err != nil {
			return err
		}
		return fsys.Rename(name+".tmp", name)
	}
	for _, c := range []struct {
		name    string
		replace func(FS, string, []byte, fs.FileMode) error
		sound   bool
	}{{"WriteFileAtomic", WriteFileAtomic, true}, {"no sync", unsynced, false}} {
		t.Run(c.name, func(t *testing.T) {
			old, new := bytes.Repeat([]byte("o"), 1500), bytes.Repeat([]byte("n"), 1500)
			m := NewMem()
			check(t, WriteFileAtomic(m, "f", old, 0o600))
			bad, images := 0, 0
			look := func() {
				for _, image := range m.Images(10) {
					images++
					if got := content(t, image, "f"); !bytes.Equal(got, old) && !bytes.Equal(got, new) {
						bad++
					}
				}
			}
			m.OnOp(func(Op) { look() })
			check(t, c.replace(m, "f", new, 0o600))
			look()
			if (bad == 0) != c.sound {
				t.Errorf("%d of %d images are bad", bad, images)
			}
			if got := content(t, m.Crash(KeepNothing), "f"); bytes.Equal(got, new) != c.sound {
				t.Errorf("durable at the end: %s", runs(got))
			}
		})
	}
}

func TestUnsynced(t *testing.T) {
	m := NewMem()
	play(t, m, "mkdir d; create d/f; write d/f 10 a600; rename d/f g; trunc d/f 5; remove g")
	var got []string
	for _, it := range m.Unsynced() {
		got = append(got, it.String())
	}
	want := []string{"0: mkdir d", "1: create d/f", "2: write d/f [10,610)", "3: size d/f = 610",
		"4: rename d/f -> g", "5: size d/f = 5", "6: remove g"}
	if !slices.Equal(got, want) {
		t.Errorf("Unsynced = %q\nwant %q", got, want)
	}
}

// TestSeeded checks that a seed gives one image, and that seeds reach every image of a small case.
func TestSeeded(t *testing.T) {
	m := NewMem()
	play(t, m, "create f; write f 0 a500; sync f; syncdir /; write f 500 b500")
	got := map[string]bool{}
	for seed := range uint64(200) {
		image := show(m.Crash(Seeded(seed)))
		if again := show(m.Crash(Seeded(seed))); again != image {
			t.Fatalf("seed %d: %s and %s", seed, image, again)
		}
		got[image] = true
	}
	if len(got) != 7 {
		t.Errorf("%d images: %s", len(got), list(got))
	}
}

// BenchmarkCrash is a data directory of 1 MiB in 64 files, one of them with 40 unsynced appends.
func BenchmarkCrash(b *testing.B) {
	m := NewMem()
	for i := range 64 {
		name := fmt.Sprintf("p-%d/f", i)
		check(b, m.Mkdir(path.Dir(name), 0o700))
		f := create(b, m, name)
		write(b, f, 0, strings.Repeat("x", 16<<10))
		check(b, f.Sync())
		check(b, m.SyncDir(path.Dir(name)))
	}
	check(b, m.SyncDir("/"))
	f := create(b, m, "p-0/f")
	for i := range int64(40) {
		write(b, f, 16<<10+i*700, strings.Repeat("y", 700))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Crash(Seeded(uint64(i)))
	}
}
