package broker

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/throttle"
)

// The explanations that the pages for users show are of these situations, in which time is virtual. cmd/sluice renders them and looks for them in the pages.
func TestExplanationsOfThePages(t *testing.T) {
	for name, c := range map[string]struct {
		settings throttle.Settings
		ask      string
		groups   []string
		at       time.Duration
	}{
		"ticks": {
			ask: "/v1/throttle/ticks/0", groups: []string{"slow"}, at: 3367 * time.Millisecond,
		},
		"orders": {
			settings: throttle.Settings{Mode: throttle.Precise, Groups: map[string]throttle.Policy{"replay": msgs(50)}},
			ask:      "/v1/throttle/orders/0?group=replay", groups: []string{"replay", "billing"}, at: 5304 * time.Millisecond,
		},
	} {
		inBubble(t, c.settings, func(b *bubble) {
			x := b.topic(name, 1, nil)
			x.limits.Configure(throttle.Policies{Topic: msgs(10)}, instant())
			b.backlog(x, 1000, 1, 10)
			for i, group := range c.groups {
				b.owns(group, "member of "+group, "client of "+group, x)
				b.read("client of "+group, c.at, func(r *reader) { r.gap = time.Duration(2+i) * time.Millisecond }, at(x, 0, 0))
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(time.Until(b.born.Add(c.at)))
			_, body := b.asks(c.ask)
			var pretty bytes.Buffer
			check(t, json.Indent(&pretty, []byte(body), "", "  "))
			file := filepath.Join("testdata", "explain", name+".json")
			if *update {
				check(t, os.MkdirAll(filepath.Dir(file), 0o755))
				check(t, os.WriteFile(file, pretty.Bytes(), 0o644))
			}
			want, err := os.ReadFile(file)
			check(t, err)
			if got := pretty.String(); got != string(want) {
				t.Errorf("%s is\n%s\nand was\n%s", name, got, want)
			}
			b.readers.Wait()
		})
	}
}
