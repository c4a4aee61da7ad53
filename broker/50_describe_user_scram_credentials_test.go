package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeUserScramCredentials(t *testing.T) {
	c := startNode(t, nil).dial()
	for _, x := range []struct{ users, want []string }{
		{nil, nil},
		{[]string{"alice"}, []string{"alice 91"}},
		{[]string{"alice", "bob", "alice", ""}, []string{"alice 92", "bob 91", " 91"}},
	} {
		q := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, name := range x.users {
			q.Users = append(q.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: name})
		}
		resp := do[*kmsg.DescribeUserSCRAMCredentialsResponse](c, q, 0)
		var got []string
		for _, r := range resp.Results {
			got = append(got, fmt.Sprint(r.User, " ", r.ErrorCode))
			if r.ErrorMessage == nil || len(r.CredentialInfos) > 0 {
				t.Errorf("%q: %+v", x.users, r)
			}
		}
		if resp.ErrorCode != 0 || !slices.Equal(got, x.want) {
			t.Errorf("%q: code %d, %q, want %q", x.users, resp.ErrorCode, got, x.want)
		}
	}
}
