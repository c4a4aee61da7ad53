package kproto

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestStalled(t *testing.T) {
	var none, tags, bad kmsg.Tags
	if got := GetStalled(&none); got != nil {
		t.Errorf("of no tags: %+v", got)
	}
	want := []Stalled{{"a", 1, 2000, 3}, {"b", 0, 1 << 40, 1 << 50}}
	SetStalled(&tags, want)
	if got := GetStalled(&tags); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	tags.Each(func(n uint32, value []byte) {
		for cut := range value {
			bad.Set(n, value[:cut])
			if got := GetStalled(&bad); got != nil {
				t.Errorf("of %d bytes: %+v", cut, got)
			}
		}
	})
	// Through a response, as a client reads it.
	m := kmsg.NewDescribeGroupsResponseGroupMember()
	SetStalled(&m.UnknownTags, want)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = 5
	g := kmsg.NewDescribeGroupsResponseGroup()
	g.Members = append(g.Members, m)
	resp.Groups = append(resp.Groups, g)
	again := kmsg.NewPtrDescribeGroupsResponse()
	again.Version = 5
	if err := again.ReadFrom(resp.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	if got := GetStalled(&again.Groups[0].Members[0].UnknownTags); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
