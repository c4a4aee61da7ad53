//go:build !race

package log

import "testing"

// BenchmarkTrim is what a fetch of 1 MB costs where its batches are counted, beside one where they are not: by a look at each header, in the
// page cache or remembered, or as a whole.
func BenchmarkTrim(b *testing.B) {
	for _, c := range []struct {
		name                 string
		size, batches, begin int
	}{
		{"10 of 100 KB, read", 100_000, 60, 0},
		{"10 of 100 KB, remembered", 100_000, 60, 50},
		{"1000 of 1 KB, read", 1000, 1100, 0},
	} {
		l := newDiskLog(b, OS)
		for range c.batches {
			mustAppend(b, l, batchSpec{size: c.size})
		}
		for name, trim := range map[string]func(*Range) error{
			"not counted": func(*Range) error { return nil },
			"as a whole":  func(r *Range) error { r.Records(); return nil },
			"its batches": func(r *Range) error { r.Batches(); return nil },
			"counted":     func(r *Range) error { return l.Trim(r, admitAll{}) },
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r, err := l.Read(int64(c.begin), int64(c.batches), 1_050_000, true)
					if err != nil {
						b.Fatal(err)
					}
					if err := trim(&r); err != nil {
						b.Fatal(err)
					}
					r.Release()
				}
			})
		}
	}
}
