package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// quotaSteps set a quota of every kind of entity: what is set, what is said, and the entity in JSON. They are in the order of the list.
var quotaSteps = []struct{ target, quotas, said, listed string }{
	{"--user alice --client-id app", "--producer-byte-rate 50kB",
		"user alice, client id app: all its clients together produce at most 50000 bytes a second",
		`{"user":"alice","client_id":"app","quotas":{"producer_byte_rate":50000}}`},
	{"--user alice --client-id-default", "--consumer-byte-rate 2MiB",
		"user alice, default client id: each client id by itself, its clients together, fetch at most 2097152 bytes a second",
		`{"user":"alice","client_id_default":true,"quotas":{"consumer_byte_rate":2097152}}`},
	{"--user alice", "--request-percentage 12.5 --producer-byte-rate 1MB",
		"user alice: all its clients together produce at most 1000000 bytes a second, use at most 12.5 % of a thread for their requests",
		`{"user":"alice","quotas":{"producer_byte_rate":1000000,"request_percentage":12.5}}`},
	{"--user-default --client-id app", "--controller-mutation-rate 0.25",
		"default user, client id app: of each user, the clients with this id together create and delete at most 0.25 partitions a second",
		`{"user_default":true,"client_id":"app","quotas":{"controller_mutation_rate":0.25}}`},
	{"--user-default --client-id-default", "--producer-byte-rate 7",
		"default user, default client id: of each user, each client id by itself, its clients together, produce at most 7 bytes a second",
		`{"user_default":true,"client_id_default":true,"quotas":{"producer_byte_rate":7}}`},
	{"--user-default", "--producer-byte-rate 8",
		"default user: each user without a quota of its own, all its clients together, produce at most 8 bytes a second",
		`{"user_default":true,"quotas":{"producer_byte_rate":8}}`},
	{"--client-id default", "--producer-byte-rate 9",
		"client id default: all its clients together produce at most 9 bytes a second",
		`{"client_id":"default","quotas":{"producer_byte_rate":9}}`},
	{"--client-id-default", "--producer-byte-rate 10000GB",
		"default client id: each client id by itself, its clients together, produce at most 10000000000000 bytes a second",
		`{"client_id_default":true,"quotas":{"producer_byte_rate":10000000000000}}`},
}

// TestQuotas sets quotas, lists them, and takes them back, at a stranger's broker and at this one.
func TestQuotas(t *testing.T) {
	t.Run("another broker", func(t *testing.T) {
		startBroker(t)
		quotaLife(t)
	})
	t.Run("this broker", func(t *testing.T) {
		startThisBroker(t)
		quotaLife(t)
	})
}

func quotaLife(t *testing.T) {
	want := []entityQuotas{}
	for _, c := range quotaSteps {
		if said := quota(t, "set", c.target, c.quotas); said != c.said+"\n" {
			t.Errorf("%s: said %q, want %q", c.target, said, c.said)
		}
		var q entityQuotas
		decode(t, c.listed, &q)
		want = append(want, q)
	}
	if got := listQuotas(t); !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v, want %+v", got, want)
	}
	if got := listQuotas(t, "--user", "alice"); !reflect.DeepEqual(got, want[:3]) {
		t.Errorf("of alice %+v", got)
	}
	if got, alone := listQuotas(t, "--client-id-default"), []entityQuotas{want[1], want[4], want[7]}; !reflect.DeepEqual(got, alone) {
		t.Errorf("of the default client id %+v", got)
	}
	if got := listQuotas(t, "--user", "alice", "--client-id", "app"); !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("of alice and app %+v", got)
	}
	for _, c := range quotaSteps {
		name, _, _ := strings.Cut(c.said, ":")
		if said := quota(t, "unset", c.target); said != name+": no quota of its own\n" {
			t.Errorf("%s: said %q", c.target, said)
		}
	}
	if got := listQuotas(t); len(got) != 0 {
		t.Errorf("after the last unset %+v", got)
	}
	if out := quota(t, "list -o json"); out != "[]\n" {
		t.Errorf("nothing as JSON: %q", out)
	}
}

// quota runs a subcommand that has to succeed.
func quota(t *testing.T, args ...string) string {
	t.Helper()
	return must(t, "", slices.Concat([]string{"quota"}, strings.Fields(strings.Join(args, " ")))...)
}

func listQuotas(t *testing.T, flags ...string) (quotas []entityQuotas) {
	t.Helper()
	decode(t, must(t, "", slices.Concat([]string{"quota", "list", "-o", "json"}, flags)...), &quotas)
	return quotas
}

// What is not named stays, whether it is set or taken back.
func TestQuotaKeepsTheOthers(t *testing.T) {
	startBroker(t)
	quota(t, "set --user u --producer-byte-rate 1 --consumer-byte-rate 2 --request-percentage 3")
	quota(t, "set --user u --producer-byte-rate 4")
	if said := quota(t, "unset --user u --request-percentage --consumer-byte-rate"); said != "user u: no consumer_byte_rate, request_percentage of its own\n" {
		t.Errorf("said %q", said)
	}
	got := listQuotas(t)
	if len(got) != 1 || !reflect.DeepEqual(got[0].Quotas, map[string]float64{producerByteRate: 4}) {
		t.Errorf("listed %+v", got)
	}
}

// The table has a line for each quota, those of IP addresses and of unknown kinds too, which only others set.
func TestQuotaTable(t *testing.T) {
	c := startBroker(t)
	c.ControlKey(kmsg.DescribeClientQuotas.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
		odd, address := "a\nb\x1b[2J", "10.0.0.1"
		resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{
			{Entity: []kmsg.DescribeClientQuotasResponseEntryEntity{{Type: "ip", Name: &address}}, Values: []kmsg.DescribeClientQuotasResponseEntryValue{{Key: "connection_creation_rate", Value: 5}}},
			{Entity: []kmsg.DescribeClientQuotasResponseEntryEntity{{Type: "client-id", Name: &odd}, {Type: "user"}},
				Values: []kmsg.DescribeClientQuotasResponseEntryValue{{Key: "zeal", Value: 1.5}, {Key: "request_percentage", Value: 200}, {Key: "producer_byte_rate", Value: 1e15}}},
		}
		return resp, nil, true
	})
	want := `FOR                                    QUOTA                     LIMIT
default user, client id "a\nb\x1b[2J"  producer_byte_rate        1000000000000000
default user, client id "a\nb\x1b[2J"  request_percentage        200
default user, client id "a\nb\x1b[2J"  zeal                      1.5
IP address 10.0.0.1                    connection_creation_rate  5
`
	if got := quota(t, "ls"); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

// TestQuotaMistakes: what to do next is said, and nothing is set.
func TestQuotaMistakes(t *testing.T) {
	startBroker(t)
	for args, want := range map[string]string{
		"set --producer-byte-rate 5": "--client-id-default",
		"set --user u":               "nothing to set: give --producer-byte-rate",
		"set --user u --user-default --producer-byte-rate 5":           "can't be used together",
		"set --client-id c --client-id-default --request-percentage 5": "can't be used together",
		"set --user u --producer-byte-rate 0":                          "quota unset",
		"set --user u --request-percentage -1":                         "above 0",
		"set --user u --request-percentage NaN":                        "above 0",
		"set --user u --controller-mutation-rate Inf":                  "above 0",
		"set --user u --consumer-byte-rate 5XB":                        "is no size",
		"set --user= --producer-byte-rate 5":                           "--user-default means",
		"set --client-id= --producer-byte-rate 5":                      "--client-id-default means",
		"unset":                      "whose quota",
		"unset --producer-byte-rate": "whose quota",
		"list --user=":               "the user is empty",
	} {
		r := sluice(t, "", append([]string{"quota"}, strings.Fields(args)...)...)
		if r.code != exitUsage || !strings.Contains(r.err, want) || !strings.Contains(r.err, "See: sluice quota") {
			t.Errorf("%s: code %d, err %q; want %q", args, r.code, r.err, want)
		}
	}
	if got := listQuotas(t); len(got) != 0 {
		t.Errorf("set by mistake: %+v", got)
	}
}

// This broker tells a client that changes topics too fast; the command says where to look.
func TestQuotaOfTopicChanges(t *testing.T) {
	startThisBroker(t)
	quota(t, "set --client-id-default --controller-mutation-rate 0.001")
	must(t, "", "topic", "create", "many", "-p", "100")
	r := sluice(t, "", "topic", "create", "more")
	if r.code != exitFailed || !strings.Contains(r.err, "THROTTLING_QUOTA_EXCEEDED") || !strings.Contains(r.err, "sluice quota list") {
		t.Errorf("code %d, err %q", r.code, r.err)
	}
}

// The broker's own words about a quota win.
func TestQuotaRefused(t *testing.T) {
	c := startBroker(t)
	c.ControlKey(kmsg.AlterClientQuotas.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
		why := "Not on a Sunday."
		resp.Entries = []kmsg.AlterClientQuotasResponseEntry{{ErrorCode: kerr.InvalidRequest.Code, ErrorMessage: &why}}
		return resp, nil, true
	})
	r := sluice(t, "", "quota", "set", "--user", "u", "--producer-byte-rate", "5")
	if want := "sluice: user u: Not on a Sunday (INVALID_REQUEST)\n"; r.code != exitFailed || r.err != want || r.out != "" {
		t.Errorf("code %d, out %q, err %q, want %q", r.code, r.out, r.err, want)
	}
}

// A broker without the APIs is told from one that fails.
func TestQuotaWithoutTheAPIs(t *testing.T) {
	startBroker(t, kfake.MaxVersions(kversion.V2_5_0()))
	for _, args := range []string{"set --user u --producer-byte-rate 5", "unset --user u", "list"} {
		r := sluice(t, "", append([]string{"quota"}, strings.Fields(args)...)...)
		if r.code != exitFailed || !strings.Contains(r.err, "has no client quotas") || !strings.Contains(r.err, "sluice throttle") {
			t.Errorf("%s: code %d, err %q", args, r.code, r.err)
		}
	}
}
