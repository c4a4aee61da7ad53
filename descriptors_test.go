package sluice

import "testing"

func TestDescriptorsAreShared(t *testing.T) {
	for _, x := range []struct {
		limit uint64
		want  fileShares
	}{
		{128, fileShares{42, 22}},
		{256, fileShares{128, 64}},
		{1024, fileShares{640, 320}},
		{20_000, fileShares{13_290, 6_646}},
		{1 << 20, fileShares{699_008, 50_000}},
		{1<<64 - 1, fileShares{715_827_840, 50_000}},
	} {
		got, err := sharesOf(x.limit)
		if err != nil || got != x.want {
			t.Errorf("%d: %+v, %v; want %+v", x.limit, got, err, x.want)
		}
		if uint64(got.connections+got.segments+ownFiles) > x.limit {
			t.Errorf("%d: %+v is more than there are", x.limit, got)
		}
	}
	if _, err := sharesOf(minFiles - 1); err == nil {
		t.Error("started with too few")
	}
}
