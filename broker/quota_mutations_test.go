package broker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Topics that are made, grown or deleted too fast are refused one by one, and an older client is held instead. What Apache Kafka 4.4 answers.
func TestMutationQuota(t *testing.T) {
	const over = kproto.ThrottlingQuotaExceeded
	create := func(c *client, version int16, validate bool, partitions int32, names ...string) (codes []int16, ms int32) {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.ValidateOnly, q.TimeoutMillis = validate, 1000
		for _, name := range names {
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
			q.Topics = append(q.Topics, rt)
		}
		resp := do[*kmsg.CreateTopicsResponse](c, q, version)
		for _, x := range resp.Topics {
			codes = append(codes, x.ErrorCode)
		}
		return codes, resp.ThrottleMillis
	}
	remove := func(c *client, version int16, name string) (int16, int32) {
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.TopicNames = []string{name}
		resp := do[*kmsg.DeleteTopicsResponse](c, q, version)
		return resp.Topics[0].ErrorCode, resp.ThrottleMillis
	}
	grow := func(c *client, version int16, name string, count int32) (int16, int32) {
		q := kmsg.NewPtrCreatePartitionsRequest()
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = name, count
		q.Topics = []kmsg.CreatePartitionsRequestTopic{rt}
		resp := do[*kmsg.CreatePartitionsResponse](c, q, version)
		return resp.Topics[0].ErrorCode, resp.ThrottleMillis
	}
	synctest.Test(t, func(t *testing.T) {
		n := startNodeInBubble(t, nil)
		c := n.dial()
		c.alterQuotas(false, quotaEntry("client-id", setQuota("controller_mutation_rate", 1))) // 11 at once
		begin := time.Now()
		held := func(what string, codes, want any, ms, wantMs int32) {
			t.Helper()
			if fmt.Sprint(codes) != fmt.Sprint(want) || ms < wantMs-100 || ms > wantMs {
				t.Errorf("%s: %v, held for %d ms, want %v and %d ms", what, codes, ms, want, wantMs)
			}
			time.Sleep(time.Duration(ms) * time.Millisecond)
		}
		codes, ms := create(c, 7, true, 20, "a", "b")
		held("the second topic of a dry run", codes, []int16{0, over}, ms, 9000)
		codes, ms = create(c, 7, false, 20, "a")
		held("after the wait", codes, []int16{0}, ms, 0)
		code, ms := grow(c, 3, "a", 21)
		held("one more partition", code, over, ms, 20_000)
		code, ms = grow(c, 3, "a", 31) // from 20
		held("eleven more", code, 0, ms, 0)
		code, ms = remove(c, 5, "a")
		held("away with it", code, over, ms, 11_000)
		code, ms = remove(c, 5, "a")
		held("away with it, later", code, 0, ms, 0)
		codes, ms = create(c, 5, false, 4, "c", "c2")
		held("an older client", codes, []int16{0, 0}, ms, 39_000)
		codes, ms = create(c, 5, false, 1, "d")
		held("and again", codes, []int16{0}, ms, 1000)
		codes, ms = create(c, 7, false, 1, "d")
		held("what fails otherwise counts nothing", codes, []int16{kproto.TopicAlreadyExists}, ms, 0)
		if took := time.Since(begin); took > 80*time.Second {
			t.Errorf("all of it took %v", took)
		}
		if lines, _ := c.quotas(false); !slices.Equal(lines, []string{"client-id controller_mutation_rate=1"}) {
			t.Errorf("quotas %q", lines)
		}
	})
}
