package sluice

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// room says what a package may import of ours, and whether it is pure: no lock, goroutine primitive, clock or I/O. Of the pure ones
// throttle may lock: every connection takes from the same counters, so there is no shell that could serialise them.
type room struct {
	imports []string
	pure    bool
	locks   bool
}

// rooms are the arrows of ARCHITECTURE.md. A package below a room follows the room's rule and may import its own neighbours there.
var rooms = map[string]room{
	"kproto":           {},
	"log":              {imports: []string{"kproto", "internal/vfs"}},
	"group":            {imports: []string{"kproto", "internal/machine"}, pure: true},
	"txn":              {imports: []string{"kproto", "internal/machine"}, pure: true},
	"catalog":          {imports: []string{"kproto", "internal/machine"}, pure: true},
	"auth":             {imports: []string{"kproto"}, pure: true},
	"throttle":         {pure: true, locks: true},
	"config":           {pure: true},
	"internal/machine": {pure: true},
	"internal/coord":   {imports: []string{"internal/machine", "log"}},
	"internal/kraft":   {imports: []string{"kproto", "internal/vfs", "log"}},
	"internal/vfs":     {},
	"internal/server":  {imports: []string{"kproto"}},
	"broker": {imports: []string{"log", "internal/coord", "internal/machine", "internal/server", "internal/vfs", "internal/kraft", "group", "txn", "catalog", "auth",
		"throttle", "config", "kproto"}},
}

// forbidden are packages that a pure room must not import (sync/atomic is allowed; time is for time.Duration and time.Time, see callsClock).
var forbidden = []string{"os", "net", "sync", "math/rand", "math/rand/v2", "crypto/rand"}

type listed struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
	Dir        string
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, "sluice/")
		home, rule, ok := roomOf(name)
		if !ok {
			continue
		}
		for _, imp := range p.Imports {
			if rule.pure && slices.Contains(forbidden, imp) && !(rule.locks && imp == "sync") {
				t.Errorf("%s is pure and must not import %s", name, imp)
			}
			ours, is := strings.CutPrefix(imp, "sluice/")
			if !is || ours == home || strings.HasPrefix(ours, home+"/") {
				continue
			}
			if !slices.ContainsFunc(rule.imports, func(a string) bool { return ours == a || strings.HasPrefix(ours, a+"/") }) {
				t.Errorf("%s must not import %s", name, ours)
			}
		}
	}
}

func TestPureRoomsReadNoClock(t *testing.T) {
	for _, p := range list(t) {
		if _, rule, ok := roomOf(strings.TrimPrefix(p.ImportPath, "sluice/")); !ok || !rule.pure {
			continue
		}
		for _, f := range p.GoFiles {
			out, err := exec.Command("grep", "-nE", `time\.(Now|Since|Until|Sleep|After|AfterFunc|NewTimer|NewTicker|Tick)\(`, p.Dir+"/"+f).Output()
			if err == nil {
				t.Errorf("%s/%s reads the clock:\n%s", p.ImportPath, f, out)
			}
		}
	}
}

func roomOf(name string) (home string, r room, ok bool) {
	for h, r := range rooms {
		if name == h || strings.HasPrefix(name, h+"/") {
			return h, r, true
		}
	}
	return "", room{}, false
}

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles,Dir", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
