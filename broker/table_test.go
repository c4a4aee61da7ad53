package broker

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

var update = flag.Bool("update", false, "write the generated pages, and the explanations of testdata/explain, instead of comparing them")

func TestTableIsSound(t *testing.T) {
	for i, r := range table {
		if i > 0 && r.key <= table[i-1].key {
			t.Errorf("%s does not stand in order of key", r.name)
		}
		if want := kmsg.NameForKey(r.key); !strings.EqualFold(r.name, want) {
			t.Errorf("key %d is named %s, kmsg says %s", r.key, r.name, want)
		}
		if req := kmsg.RequestForKey(r.key); req == nil || req.MaxVersion() < r.max {
			t.Errorf("%s: kmsg does not know version %d", r.name, r.max)
		}
		if r.handle == nil || r.acl == "" || r.accept < r.min || r.accept > r.max {
			t.Errorf("%s: row is not whole: %+v", r.name, r)
		}
	}
}

// apisPage is docs/apis.md.
func apisPage() string {
	var b strings.Builder
	b.WriteString("# APIs\n\nGenerated from the table in broker/table.go by `go generate ./broker`; do not edit.\n\n" +
		"Versions are those advertised. A request of another API or version closes the connection, except ApiVersions, which is answered in version 0\n" +
		"with UNSUPPORTED_VERSION. Quota says which client quota the API draws on, all of them beside request time; authorization what it will need once there is an authorizer.\n\n" +
		"| key | API | versions | quota | authorization |\n|---|---|---|---|---|\n")
	for _, r := range table {
		versions := fmt.Sprintf("%d-%d", r.min, r.max)
		if r.min == r.max {
			versions = fmt.Sprint(r.min)
		}
		if r.accept != r.min {
			versions += fmt.Sprintf(" (%d-%d accepted)", r.accept, r.max)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", r.key, r.name, versions, r.class, r.acl)
	}
	return b.String()
}

func TestAPIsPage(t *testing.T) {
	const file = "../docs/apis.md"
	want := apisPage()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is stale (%v); run: go generate ./broker", file, err)
	}
}

func TestAPIVersionsAnswersTheTable(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	for v := int16(0); v <= 4; v++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "librdkafka", "2.15.0"
		resp := do[*kmsg.ApiVersionsResponse](c, req, v)
		if resp.ErrorCode != 0 || len(resp.FinalizedFeatures) != int(one(v >= 3)) || len(resp.SupportedFeatures) != int(one(v >= 4)) {
			t.Fatalf("v%d: %+v", v, resp)
		}
		want := slices.Clone(table)
		for _, k := range resp.ApiKeys {
			if len(want) == 0 || k.ApiKey != want[0].key || k.MinVersion != want[0].min || k.MaxVersion != want[0].max {
				t.Fatalf("v%d: %+v is not the next row", v, k)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			t.Errorf("v%d: %s is missing", v, want[0].name)
		}
	}
}

// Clients measure features by single versions that must lie in a range (librdkafka), or look at the maximum only (kafka-go).
func TestVersionsThatClientsLookFor(t *testing.T) {
	for _, x := range []struct{ key, version int16 }{
		{0, 3}, {0, 7}, {0, 13}, {1, 4}, {1, 10}, {1, 18}, {2, 1}, {3, 0}, {3, 1}, {3, 6}, {10, 0}, {16, 1}, {18, 0}, {18, 3}, {18, 4},
		{19, 2}, {20, 1}, {22, 0}, {22, 4}, {23, 2}, {32, 1}, {35, 1}, {37, 0}, {44, 0}, {60, 0}, {68, 1}, {69, 0}, {75, 0},
		{8, 2}, {9, 1}, {10, 0}, {11, 0}, {11, 1}, {11, 2}, {12, 0}, {13, 0}, {14, 0}, {16, 1}, {47, 0},
	} {
		if r := rowOf(x.key); r == nil || x.version < r.min || x.version > r.max {
			t.Errorf("API %d is not advertised in version %d", x.key, x.version)
		}
	}
	// A minimum of Produce above 0 has librdkafka send uncompressed; below 3 the record format is another one.
	if r := rowOf(0); r.min != 0 || r.accept != 3 {
		t.Errorf("Produce: advertised from %d, accepted from %d", r.min, r.accept)
	}
}

func TestAPIVersionsUnsupportedVersion(t *testing.T) {
	c := startNode(t, nil).dial()
	for _, version := range []int16{5, 99, 32767, -1} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.SetVersion(5) // a newer client's frame
		b := formatter.AppendRequest(nil, req, 7)
		b[6], b[7] = byte(uint16(version)>>8), byte(version)
		if err := c.write(b); err != nil {
			t.Fatal(err)
		}
		got, err := c.read()
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(got[4:]); err != nil {
			t.Fatalf("version %d: no body of version 0: %v", version, err)
		}
		if resp.ErrorCode != kproto.UnsupportedVersion || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 4 {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
}

func TestAPIVersionsSoftwareName(t *testing.T) {
	c := startNode(t, nil).dial()
	for _, x := range []struct {
		name, version string
		code          int16
	}{
		{"apache-kafka-java", "3.9.0", 0},
		{"a", "1", 0},
		{"", "1", 42},
		{"a", "", 42},
		{"-a", "1", 42},
		{"a.", "1", 42},
		{"a b", "1", 42},
		{"a", "1\n", 42},
		{"ä", "1", 42},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = x.name, x.version
		if resp := do[*kmsg.ApiVersionsResponse](c, req, 3); resp.ErrorCode != x.code {
			t.Errorf("%q %q: %d, want %d", x.name, x.version, resp.ErrorCode, x.code)
		}
	}
}

func TestUnservedRequestsCloseTheConnection(t *testing.T) {
	n := startNode(t, nil)
	for _, x := range []struct{ key, version int16 }{
		{-1, 0}, {4, 0}, {maxKey, 0}, {maxKey + 1, 0}, {32767, 0}, {-32768, 0}, // keys
		{0, 2}, {0, 14}, {1, 3}, {1, 19}, {3, 14}, {3, -1}, {19, 1}, {20, 0}, {23, 1}, // versions
	} {
		c := n.dial()
		b := formatter.AppendRequest(nil, kmsg.NewPtrMetadataRequest(), 7)
		b[4], b[5], b[6], b[7] = byte(uint16(x.key)>>8), byte(x.key), byte(uint16(x.version)>>8), byte(x.version)
		if err := c.write(b); err != nil {
			t.Fatal(err)
		}
		if got, err := c.read(); err == nil {
			t.Errorf("API %d version %d: answered %x", x.key, x.version, got)
		}
	}
	do[*kmsg.MetadataResponse](n.dial(), kmsg.NewPtrMetadataRequest(), 0)
}

// A handler that panics costs its connection and nothing else.
func TestPanicClosesTheConnection(t *testing.T) {
	n := startNode(t, nil)
	row := rowOf(16)
	handle := row.handle
	defer func() { row.handle = handle }()
	row.handle = typed(func(*Broker, *call, *kmsg.ListGroupsRequest) { panic("on purpose") })
	if _, err := n.dial().try(kmsg.NewPtrListGroupsRequest(), 0); err == nil {
		t.Error("answered")
	}
	if !n.logs.contains("on purpose") {
		t.Error("not logged")
	}
	n.logs.forget()
	do[*kmsg.MetadataResponse](n.dial(), kmsg.NewPtrMetadataRequest(), 0)
}
