package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/compat/checks"
)

// fakeSource serves records from memory.
type fakeSource struct {
	records []checks.Record
	shift   int64 // added to every offset that Offset finds
}

func (s *fakeSource) Offset(_ context.Context, _ string, _ int32, at int64) (int64, error) {
	if at == checks.Latest {
		return int64(len(s.records)), nil
	}
	found := slices.IndexFunc(s.records, func(r checks.Record) bool { return r.Timestamp.UnixMilli() >= at })
	return int64(found) + s.shift, nil
}

func (s *fakeSource) Open(_ context.Context, _ string, _ int32, offset int64) (checks.Reader, error) {
	return &fakeReader{s.records[offset:]}, nil
}

type fakeReader struct{ rest []checks.Record }

func (r *fakeReader) Read(context.Context) (*checks.Record, error) {
	if len(r.rest) == 0 {
		return nil, errors.New("no more")
	}
	next := r.rest[0]
	r.rest = r.rest[1:]
	return &next, nil
}

func (r *fakeReader) SeekTo(int64) error { return nil }
func (r *fakeReader) Close()             {}

func newFakeSource(n int) *fakeSource {
	s := &fakeSource{}
	for i := range n {
		s.records = append(s.records, checks.Record{
			Offset: int64(i), Timestamp: time.UnixMilli(int64(1000 + i/2)), Key: []byte{byte('a' + i)}, Value: []byte{byte(i)},
		})
	}
	return s
}

func TestReplay(t *testing.T) {
	tests := map[string]struct {
		reader int // which of the three is damaged
		damage func(s *fakeSource)
		want   string // a part of the error, "" for none
	}{
		"all agree":                    {0, func(*fakeSource) {}, ""},
		"an offset is missing":         {0, func(s *fakeSource) { s.records[4].Offset++ }, "read offset 5, want 4"},
		"the middle has other bytes":   {1, func(s *fakeSource) { s.records[7].Value = []byte("x") }, "differ"},
		"the middle has another key":   {1, func(s *fakeSource) { s.records[7].Key = nil }, "differ"},
		"the timestamp leads astray":   {2, func(s *fakeSource) { s.shift = 1 }, "timestamp"},
		"behind the timestamp is less": {2, func(s *fakeSource) { s.records = s.records[:9] }, "no more"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			from := [3]source{newFakeSource(10), newFakeSource(10), newFakeSource(10)}
			tc.damage(from[tc.reader].(*fakeSource))
			_, err := replay(t.Context(), from, "t", 0)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCompareFiles(t *testing.T) {
	files := []file{{"a", 1, sum{1}}, {"b", 1, sum{2}}}
	a, b := entry{1, "a", sum{1}}, entry{1, "b", sum{2}}
	tests := map[string]struct {
		logs [][]entry
		want string
	}{
		"equal":     {[][]entry{{b}, {a}}, ""},
		"missing":   {[][]entry{{a}}, "missing:1"},
		"different": {[][]entry{{a, {1, "b", sum{3}}}}, "different:1"},
		"twice":     {[][]entry{{a, b}, {a}}, "twice:1"},
		"strange":   {[][]entry{{a, b, {1, "c", sum{}}}}, "strange:1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var logs []*partitionLog
			for _, entries := range tc.logs {
				logs = append(logs, &partitionLog{entries: entries})
			}
			err := compareFiles(files, logs)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
