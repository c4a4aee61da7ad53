package harness

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseResults(t *testing.T) {
	got, err := ParseResults(strings.NewReader("a,PASS\nb, with a comma,FAIL\nc,SKIP\n"))
	want := map[string]Result{"a": Pass, "b, with a comma": Fail, "c": Skip}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"a\n", "a,OK\n", "a,PASS\na,PASS\n"} {
		if _, err := ParseResults(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestReadAllowList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tests.allow")
	if err := os.WriteFile(path, []byte("# a comment\n\nfirst\n  second one  \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAllowList(path)
	if err != nil || !reflect.DeepEqual(got, map[string]bool{"first": true, "second one": true}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestJudge(t *testing.T) {
	results := map[string]Result{"good": Pass, "new": Pass, "known bad": Fail, "broken": Fail, "left out": Skip, "cannot": Skip}
	mustPass := map[string]bool{"good": true, "broken": true, "left out": true, "gone": true}
	want := Verdict{
		Passed: 2, Failed: 3, Skipped: 2,
		Broken: []string{"broken", "gone (did not run)", "left out"},
		News:   []string{"new"},
	}
	if got := Judge(results, mustPass); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
