package group

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/coord"
	"sluice/internal/coord/coordtest"
	"sluice/internal/machine"
	"sluice/kproto"
)

// TestBehindItsDriver plays a short life with the real driver and its timer: a member forms a group, its assignment waits
// for the log, a commit is lost with the machine, the group is found again as it was, and the session ends in its time.
func TestBehindItsDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log coordtest.MemLog
		var orders []any
		shard, err := coord.Open(func() machine.Machine { return New(Options{Settings: func() Settings { return testOpts }}) }, &log,
			coord.Options{Logger: slog.New(slog.DiscardHandler), Orders: func(o []any) { orders = append(orders, o...) }})
		if err != nil {
			t.Fatal(err)
		}
		defer shard.Close()
		ask := func(ev any) any {
			v, err := shard.Ask(t.Context(), ev)
			if err != nil {
				t.Fatalf("%T: %v", ev, err)
			}
			return v
		}
		s := newStage(t) // for its requests
		joinEvent, _ := s.event("join", []string{"g", "a", "v=3"})
		s.actor("a").id, s.actor("a").generation = "a-1", 1
		syncEvent, _ := s.event("sync", []string{"g", "a", "a=t:0"})
		commitEvent, _ := s.event("commit", []string{"g", "a", "t:0=5"})
		heartbeat, _ := s.event("heartbeat", []string{"g", "a"})

		if j := ask(joinEvent).(*kmsg.JoinGroupResponse); j.ErrorCode != 0 || j.MemberID != "a-1" || j.Generation != 1 {
			t.Fatalf("joined: %+v", j)
		}
		log.Hold()
		time.AfterFunc(time.Second, func() { log.Release() })
		began := time.Now()
		if r := ask(syncEvent).(*kmsg.SyncGroupResponse); r.ErrorCode != 0 || time.Since(began) != time.Second {
			t.Fatalf("synced after %v: %+v", time.Since(began), r)
		}
		log.Hold()
		time.AfterFunc(time.Second, func() { log.FailSync(errors.New("disk trouble")) })
		if _, err := shard.Ask(t.Context(), commitEvent); !errors.Is(err, coord.ErrNotDurable) {
			t.Fatalf("a lost commit: %v", err)
		}
		log.Release()
		if r := ask(heartbeat).(*kmsg.HeartbeatResponse); r.ErrorCode != 0 {
			t.Fatalf("heartbeat after the replay: %s", kproto.CodeName(r.ErrorCode))
		}
		time.Sleep(9 * time.Second)
		if g := ask(Describe{"g"}).(kmsg.DescribeGroupsResponseGroup); g.State != string(Stable) {
			t.Errorf("after nine seconds: %s", g.State)
		}
		time.Sleep(2 * time.Second)
		if g := ask(Describe{"g"}).(kmsg.DescribeGroupsResponseGroup); g.State != string(Empty) {
			t.Errorf("after eleven seconds: %s", g.State)
		}
		if len(orders) != 4 { // assigned, found again, gone, and nobody's
			t.Errorf("orders: %+v", orders)
		}
	})
}
