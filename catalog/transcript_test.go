package catalog_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/catalog"
	"sluice/internal/coord"
	"sluice/internal/coord/coordtest"
	"sluice/internal/machine"
	"sluice/internal/transcript"
	"sluice/kproto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTranscripts plays testdata/*.txt; README.txt there explains the commands.
func TestTranscripts(t *testing.T) { transcript.Run(t, play) }

func play(t *testing.T, script string) (out string) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, limit: 100}
		s.open()
		defer func() { s.shard.Close() }()
		out = transcript.Play(s, script)
	})
	return out
}

// stage is a catalog behind its driver.
type stage struct {
	t     *testing.T
	log   coordtest.MemLog
	shard *coord.Shard
	ids   byte // topics created so far
	limit int

	mu    sync.Mutex
	lines []string
}

func (s *stage) open() {
	fresh := func() machine.Machine {
		return catalog.New(catalog.Options{
			MaxPartitions:  func() int { return s.limit },
			ValidateConfig: refuseBad,
			ValidateBrokers: func(all map[string]map[string]string) error {
				for _, values := range all {
					if err := refuseBad(catalog.ResourceBroker, "", values); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
	shard, err := coord.Open(fresh, &s.log, coord.Options{
		Logger: slog.New(slog.DiscardHandler),
		Orders: func(orders []any) {
			for _, o := range orders {
				s.say("  order %s", showOrder(o))
			}
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.shard = shard
}

// refuseBad is the rule about whole sets in these tests.
func refuseBad(_ catalog.ResourceType, _ string, all map[string]string) error {
	if all["a"] == "bad" {
		return errors.New("a must not be bad")
	}
	return nil
}

func (s *stage) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// Said implements transcript.Stage.
func (s *stage) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.lines, "\n")
	s.lines = nil
	return shortIDs(text)
}

// Command implements transcript.Stage. It waits until all is quiet; a replay that waits for its turn has run then.
func (s *stage) Command(line string) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "#" {
		return
	}
	s.run(words[0], words[1:])
	synctest.Wait()
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

func (s *stage) run(verb string, args []string) {
	switch verb {
	case "restart":
		s.shard.Close()
		s.open()
	case "crash":
		s.shard.Close()
		s.log.FailSync(errDisk)
		s.open()
	case "hold":
		s.log.Hold()
	case "sync":
		s.log.Release()
	case "fail-sync":
		s.log.FailSync(errDisk)
	case "fail-appends":
		s.log.FailAppends(errDisk)
	case "heal":
		s.log.FailAppends(nil)
	case "log":
		for _, r := range s.log.Durable() {
			s.say("  %s %s", r.Key, r.Value)
		}
	case "look":
		s.shard.View(look, s.answer("look"))
	case "limit":
		s.limit = number(s.t, args[0])
	default:
		s.shard.Do(s.event(verb, args), s.answer(strings.Join(append([]string{verb}, args...), " ")))
	}
}

var errDisk = errors.New("disk trouble")

func (s *stage) answer(what string) func(any, error) {
	return func(v any, err error) {
		if errors.Is(err, coord.ErrNotDurable) {
			err = coord.ErrNotDurable
		}
		if err != nil {
			s.say("%s: %v", what, err)
			return
		}
		s.say("%s: %s", what, showReply(v))
	}
}

func (s *stage) event(verb string, args []string) any {
	validateOnly := len(args) > 0 && args[0] == "validate-only"
	if validateOnly {
		args = args[1:]
	}
	switch verb {
	case "start":
		return catalog.Start{NewClusterID: args[0]}
	case "create":
		return catalog.CreateTopics{Topics: mapped(args, s.newTopic), ValidateOnly: validateOnly}
	case "import":
		return catalog.ImportTopics{Epoch: int32(number(s.t, args[0])), NextProducerID: int64(number(s.t, args[1])), Topics: mapped(args[2:], s.newTopic)}
	case "delete":
		return catalog.DeleteTopics{Topics: mapped(args, s.ref)}
	case "gone":
		return catalog.TopicGone{ID: s.ref(args[0]).ID}
	case "grow":
		return catalog.CreatePartitions{Topics: mapped(args, s.more), ValidateOnly: validateOnly}
	case "alter", "replace":
		return catalog.AlterConfigs{Resources: []catalog.ConfigChange{s.change(verb, args)}, ValidateOnly: validateOnly}
	case "reserve":
		return catalog.ReserveProducerIDs{N: int64(number(s.t, args[0]))}
	}
	s.t.Fatalf("no such command: %s", verb)
	return nil
}

func mapped[T any](args []string, f func(string) T) (out []T) {
	for _, a := range args {
		out = append(out, f(a))
	}
	return out
}

// newTopic reads name:partitions:key=value:...; each gets the next id.
func (s *stage) newTopic(arg string) catalog.NewTopic {
	parts := strings.Split(arg, ":")
	s.ids++
	t := catalog.NewTopic{Name: parts[0], ID: id(s.ids), Partitions: int32(number(s.t, parts[1]))}
	for _, p := range parts[2:] {
		k, v, _ := strings.Cut(p, "=")
		if t.Config == nil {
			t.Config = map[string]string{}
		}
		t.Config[k] = v
	}
	return t
}

// ref reads #id, name, or name#id.
func (s *stage) ref(arg string) catalog.TopicRef {
	name, n, ok := strings.Cut(arg, "#")
	if !ok {
		return catalog.TopicRef{Name: name}
	}
	return catalog.TopicRef{Name: name, ID: id(byte(number(s.t, n)))}
}

func (s *stage) more(arg string) catalog.MorePartitions {
	name, n, _ := strings.Cut(arg, ":")
	return catalog.MorePartitions{Name: name, Count: int32(number(s.t, n))}
}

// change reads type/name and then key=value (set), key+=value (append), key-=value (subtract), -key (delete).
func (s *stage) change(verb string, args []string) catalog.ConfigChange {
	kind, name, _ := strings.Cut(args[0], "/")
	types := map[string]catalog.ResourceType{
		"topic": catalog.ResourceTopic, "broker": catalog.ResourceBroker, "group": catalog.ResourceGroup, "logger": 8,
	}
	c := catalog.ConfigChange{Type: types[kind], Name: name, Replace: verb == "replace"}
	for _, a := range args[1:] {
		c.Ops = append(c.Ops, configOp(a))
	}
	return c
}

func configOp(arg string) catalog.ConfigOp {
	if key, ok := strings.CutPrefix(arg, "-"); ok {
		return catalog.ConfigOp{Op: catalog.OpDelete, Key: key}
	}
	key, value, _ := strings.Cut(arg, "=")
	op := catalog.OpSet
	switch key[len(key)-1] {
	case '+':
		op = catalog.OpAppend
	case '-':
		op = catalog.OpSubtract
	}
	return catalog.ConfigOp{Op: op, Key: strings.TrimRight(key, "+-"), Value: &value, Default: "x,y"}
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func id(n byte) kproto.TopicID { return kproto.TopicID{15: n} }

var idText = regexp.MustCompile(`A{20}[\w-]{2}`)

// shortIDs writes ids as #n.
func shortIDs(s string) string {
	return idText.ReplaceAllStringFunc(s, func(text string) string {
		id, err := kproto.ParseTopicID(text)
		if err != nil {
			return text
		}
		return fmt.Sprintf("#%d", id[15])
	})
}

func look(m machine.Machine) any {
	c := m.(*catalog.Machine)
	lines := []string{fmt.Sprintf("cluster %s, epoch %d", c.ClusterID(), c.Epoch())}
	for _, t := range c.Topics() {
		lines = append(lines, "  topic "+showTopic(t))
	}
	for _, t := range c.Deleted() {
		lines = append(lines, "  deleted "+showTopic(t))
	}
	for _, r := range []catalog.ResourceType{catalog.ResourceBroker, catalog.ResourceGroup} {
		for _, name := range []string{"", "1", "g"} {
			if values := c.Config(r, name); values != nil {
				lines = append(lines, fmt.Sprintf("  config %d/%s%s", r, name, showConfig(values)))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func showTopic(t catalog.Topic) string {
	internal := ""
	if t.Internal {
		internal = " internal"
	}
	return fmt.Sprintf("%s %v %d partitions%s%s", t.Name, t.ID, t.Partitions, internal, showConfig(t.Config))
}

func showConfig(values map[string]string) (s string) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		s += fmt.Sprintf(" %s=%q", k, values[k])
	}
	return s
}

func showOrder(o any) string {
	switch o := o.(type) {
	case catalog.TopicCreated:
		return "topic " + showTopic(o.Topic)
	case catalog.TopicDeleted:
		return "delete " + showTopic(o.Topic)
	case catalog.ConfigChanged:
		return fmt.Sprintf("config %d/%s%s", o.Type, o.Name, showConfig(o.Values))
	case catalog.QuotaChanged:
		return fmt.Sprintf("quota %s %v", o.Entity.Path(), o.Values)
	}
	return fmt.Sprintf("%T?", o)
}

func showReply(v any) string {
	switch v := v.(type) {
	case []catalog.TopicResult:
		return strings.Join(mapResults(v), "; ")
	case []error:
		var s []string
		for _, err := range v {
			s = append(s, showError(err))
		}
		return strings.Join(s, "; ")
	case nil:
		return "done"
	}
	return fmt.Sprintf("%v", v)
}

func mapResults(results []catalog.TopicResult) (out []string) {
	for _, r := range results {
		if r.Err != nil {
			out = append(out, catalog.TopicRef{Name: r.Topic.Name, ID: r.Topic.ID}.String()+" "+showError(r.Err))
		} else {
			out = append(out, showTopic(r.Topic))
		}
	}
	return out
}

func showError(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}
