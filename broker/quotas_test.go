package broker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Entities in these tests are written like "user=u,client-id": a part without a name is the default.

type quotaOp = kmsg.AlterClientQuotasRequestEntryOp

func setQuota(key string, v float64) quotaOp { return quotaOp{Key: key, Value: v} }
func unsetQuota(key string) quotaOp          { return quotaOp{Key: key, Remove: true} }

func quotaEntry(entity string, ops ...quotaOp) (e kmsg.AlterClientQuotasRequestEntry) {
	e.Ops = ops
	if entity == "" {
		return e
	}
	for part := range strings.SplitSeq(entity, ",") {
		typ, name, named := strings.Cut(part, "=")
		x := kmsg.AlterClientQuotasRequestEntryEntity{Type: typ}
		if named {
			x.Name = &name
		}
		e.Entity = append(e.Entity, x)
	}
	return e
}

// alterQuotas gives the codes of the answer.
func (c *client) alterQuotas(validate bool, entries ...kmsg.AlterClientQuotasRequestEntry) (codes []int16) {
	c.t.Helper()
	q := kmsg.NewPtrAlterClientQuotasRequest()
	q.Entries, q.ValidateOnly = entries, validate
	for _, e := range do[*kmsg.AlterClientQuotasResponse](c, q, 1).Entries {
		if (e.ErrorCode != 0) != (e.ErrorMessage != nil) {
			c.t.Errorf("code %d with the message %v", e.ErrorCode, e.ErrorMessage)
		}
		codes = append(codes, e.ErrorCode)
	}
	return codes
}

// quotas gives what a filter finds, an entity a line.
func (c *client) quotas(strict bool, components ...kmsg.DescribeClientQuotasRequestComponent) (lines []string, code int16) {
	c.t.Helper()
	q := kmsg.NewPtrDescribeClientQuotasRequest()
	q.Components, q.Strict = components, strict
	resp := do[*kmsg.DescribeClientQuotasResponse](c, q, 1)
	if (resp.ErrorCode != 0) != (resp.Entries == nil) || (resp.ErrorCode != 0) != (resp.ErrorMessage != nil) {
		c.t.Errorf("code %d, entries %v, message %v", resp.ErrorCode, resp.Entries, resp.ErrorMessage)
	}
	for _, e := range resp.Entries {
		var parts, values []string
		for _, p := range e.Entity {
			if p.Name != nil {
				p.Type += "=" + *p.Name
			}
			parts = append(parts, p.Type)
		}
		for _, v := range e.Values {
			values = append(values, fmt.Sprintf("%s=%v", v.Key, v.Value))
		}
		lines = append(lines, strings.Join(parts, ",")+" "+strings.Join(values, " "))
	}
	return lines, resp.ErrorCode
}

// What Apache Kafka 4.4 answers to the same requests, but where alterClientQuotas says otherwise.
func TestAlterClientQuotas(t *testing.T) {
	const bytes, fetch, percent, mutations, connections = "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"
	const bad = kproto.InvalidRequest
	n := startNode(t, nil)
	c := n.dial()
	for _, tt := range []struct {
		name   string
		entity string
		ops    []quotaOp
		want   int16
	}{
		{"a user", "user=u", []quotaOp{setQuota(bytes, 1)}, 0},
		{"a client id", "client-id=c", []quotaOp{setQuota(fetch, 1)}, 0},
		{"both", "user=u,client-id=c", []quotaOp{setQuota(percent, 1)}, 0},
		{"defaults", "user,client-id", []quotaOp{setQuota(mutations, 1)}, 0},
		{"a name that looks like the default", "user=<default>", []quotaOp{setQuota(bytes, 1)}, 0},
		{"a name with anything", "client-id=a b/ü%&", []quotaOp{setQuota(bytes, 1)}, 0},
		{"several kinds", "user=u", []quotaOp{setQuota(bytes, 1), setQuota(fetch, 2), unsetQuota(percent)}, 0},
		{"no change", "user=u", nil, 0},
		{"taking away what is not there", "user=nobody", []quotaOp{unsetQuota(bytes)}, 0},
		{"taking away what does not exist", "user=u", []quotaOp{unsetQuota("bogus")}, 0},
		{"taking away what cannot be set", "ip=10.0.0.1", []quotaOp{unsetQuota(connections)}, 0},
		{"a part twice: the last counts", "user=,user=v", []quotaOp{setQuota(bytes, 1)}, bad},
		{"the same part twice", "user=u,user=v", []quotaOp{setQuota(bytes, 1)}, 0},
		{"nobody", "", []quotaOp{setQuota(bytes, 1)}, bad},
		{"an unknown type", "bogus=x", []quotaOp{setQuota(bytes, 1)}, bad},
		{"a type in capitals", "User=u", []quotaOp{setQuota(bytes, 1)}, bad},
		{"an empty user", "user=", []quotaOp{setQuota(bytes, 1)}, bad},
		{"an empty client id", "user=u,client-id=", []quotaOp{setQuota(bytes, 1)}, bad},
		{"a long name", "user=" + strings.Repeat("x", 1025), []quotaOp{setQuota(bytes, 1)}, bad},
		{"no UTF-8", "user=\xff", []quotaOp{setQuota(bytes, 1)}, bad},
		{"an address with a user", "user=u,ip=10.0.0.1", nil, bad},
		{"an address with a client id", "client-id=c,ip", nil, bad},
		{"no address", "ip=256.1.1.1", nil, bad},
		{"a network", "ip=10.0.0.0/8", nil, bad},
		{"an address's bytes", "ip=::1", []quotaOp{setQuota(bytes, 1)}, bad},
		{"a user's connections", "user=u", []quotaOp{setQuota(connections, 1)}, bad},
		{"what has no effect here", "ip=10.0.0.1", []quotaOp{setQuota(connections, 1)}, bad},
		{"an unknown key", "user=u", []quotaOp{setQuota(bytes, 1), setQuota("bogus", 1)}, bad},
		{"a key twice", "user=u", []quotaOp{setQuota(bytes, 1), setQuota(bytes, 1)}, bad},
		{"a key set and taken away", "user=u", []quotaOp{setQuota(bytes, 1), unsetQuota(bytes)}, bad},
		{"zero", "user=u", []quotaOp{setQuota(bytes, 0)}, bad},
		{"zero percent", "user=u", []quotaOp{setQuota(percent, 0)}, bad},
		{"less than zero", "user=u", []quotaOp{setQuota(mutations, -1)}, bad},
		{"no number", "user=u", []quotaOp{setQuota(percent, math.NaN())}, bad},
		{"infinite", "user=u", []quotaOp{setQuota(percent, math.Inf(1))}, bad},
		{"half a byte", "user=u", []quotaOp{setQuota(bytes, 0.5)}, bad},
		{"almost whole", "user=u", []quotaOp{setQuota(bytes, 100.0000001)}, 0},
		{"half a percent", "user=u", []quotaOp{setQuota(percent, 0.5)}, 0},
		{"as much as fits", "user=u", []quotaOp{setQuota(fetch, 1e18)}, 0},
		{"more than fits", "user=u", []quotaOp{setQuota(fetch, 9.3e18)}, bad},
		{"any percentage", "user=u", []quotaOp{setQuota(percent, 1e30)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.alterQuotas(true, quotaEntry(tt.entity, tt.ops...)); !slices.Equal(got, []int16{tt.want}) {
				t.Errorf("%v, want %d", got, tt.want)
			}
		})
	}
	if lines, _ := c.quotas(false); lines != nil {
		t.Errorf("a dry run left %q", lines)
	}
	got := c.alterQuotas(false, quotaEntry("user=good", setQuota(bytes, 1)), quotaEntry("bogus=x", setQuota(bytes, 1)),
		quotaEntry("user=twice,client-id=c", setQuota(bytes, 1)), quotaEntry("client-id=c,user=twice", setQuota(fetch, 2)), quotaEntry("client-id", setQuota(fetch, 3)))
	if !slices.Equal(got, []int16{0, bad, bad, bad, 0}) {
		t.Errorf("good ones among bad ones: %v", got)
	}
	if lines, _ := c.quotas(false); !slices.Equal(lines, []string{"client-id consumer_byte_rate=3", "user=good producer_byte_rate=1"}) {
		t.Errorf("left %q", lines)
	}
	if codes := c.alterQuotas(false); codes != nil {
		t.Errorf("an empty request: %v", codes)
	}
}

func TestDescribeClientQuotas(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	const key = "producer_byte_rate"
	for i, e := range []string{"user=u", "client-id=c", "user=u,client-id=c", "user", "client-id", "user,client-id", "user=u,client-id", "user,client-id=c"} {
		if codes := c.alterQuotas(false, quotaEntry(e, setQuota(key, float64(i+1)))); codes[0] != 0 {
			t.Fatal(e, codes)
		}
	}
	type part = kmsg.DescribeClientQuotasRequestComponent
	exact := func(typ, name string) part { return part{EntityType: typ, MatchType: 0, Match: &name} }
	def := func(typ string) part { return part{EntityType: typ, MatchType: 1} }
	some := func(typ string) part { return part{EntityType: typ, MatchType: 2} }
	name := "u"
	for _, tt := range []struct {
		name          string
		filter        []part
		lenient, hard string // the values that are found, by a filter that is not strict and one that is
		code          int16
	}{
		{name: "no component", lenient: "12345678"},
		{name: "any user", filter: []part{some("user")}, lenient: "134678", hard: "14"},
		{name: "the default user", filter: []part{def("user")}, lenient: "468", hard: "4"},
		{name: "a user", filter: []part{exact("user", "u")}, lenient: "137", hard: "1"},
		{name: "any client id", filter: []part{some("client-id")}, lenient: "235678", hard: "25"},
		{name: "a user's client ids", filter: []part{exact("user", "u"), some("client-id")}, lenient: "37", hard: "37"},
		{name: "a client id of the default user", filter: []part{exact("client-id", "c"), def("user")}, lenient: "8", hard: "8"},
		{name: "an address", filter: []part{some("ip")}},
		{name: "a name that is empty", filter: []part{exact("user", "")}},
		{name: "an address and a user", filter: []part{some("ip"), some("user")}, code: kproto.InvalidRequest},
		{name: "a type twice", filter: []part{some("user"), def("user")}, code: kproto.InvalidRequest},
		{name: "an unknown type", filter: []part{some("bogus"), some("bogus")}, code: kproto.UnsupportedVersion},
		{name: "no type", filter: []part{some("")}, code: kproto.InvalidRequest},
		{name: "an unknown match", filter: []part{{EntityType: "user", MatchType: 3}}, code: kproto.InvalidRequest},
		{name: "a match below zero", filter: []part{{EntityType: "user", MatchType: -1}}, code: kproto.InvalidRequest},
		{name: "exact without a name", filter: []part{{EntityType: "user"}}, code: kproto.InvalidRequest},
		{name: "the default with a name", filter: []part{{EntityType: "user", MatchType: 1, Match: &name}}, code: kproto.InvalidRequest},
		{name: "any with a name", filter: []part{{EntityType: "user", MatchType: 2, Match: &name}}, code: kproto.InvalidRequest},
	} {
		for strict, want := range map[bool]string{false: tt.lenient, true: tt.hard} {
			lines, code := c.quotas(strict, tt.filter...)
			var found []byte
			for _, l := range lines {
				found = append(found, l[len(l)-1])
			}
			if slices.Sort(found); string(found) != want || code != tt.code {
				t.Errorf("%s, strict %v: %s (code %d), want %s (%d)", tt.name, strict, found, code, want, tt.code)
			}
		}
	}
}

// Quotas stand over restarts until they are taken away.
func TestQuotasPersist(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	want := []string{"client-id=a/b request_percentage=12.5", "user=u,client-id producer_byte_rate=1 request_percentage=1e+30"}
	c.alterQuotas(false, quotaEntry("client-id=a/b", setQuota("request_percentage", 12.5)), quotaEntry("user=gone", setQuota("consumer_byte_rate", 9)),
		quotaEntry("user=u,client-id", setQuota("producer_byte_rate", 1), setQuota("request_percentage", 1e30), setQuota("consumer_byte_rate", 2)))
	c.alterQuotas(false, quotaEntry("user=gone", unsetQuota("consumer_byte_rate")), quotaEntry("user=u,client-id", unsetQuota("consumer_byte_rate")))
	for range 2 {
		if lines, code := c.quotas(false); code != 0 || !slices.Equal(lines, want) {
			t.Errorf("%q (%d), want %q", lines, code, want)
		}
		n.restart()
		c = n.dial()
	}
}
