package broker

import "testing"

// The partition of a group is where Kafka's tools look for it.
func TestPartitionOf(t *testing.T) {
	for _, x := range []struct {
		group     string
		hash      int32
		partition int32 // of 50
	}{
		{"", 0, 0},
		{"a", 97, 47},
		{"Aa", 2112, 12},
		{"BB", 2112, 12},
		{"console-consumer-12345", 158455506, 6},
		{"polygenelubricants", -1 << 31, 0},
		{"групп", 1026280918, 18},
		{"😀-group", -1198440043, 5}, // two UTF-16 units
		{"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 847293440, 40},
	} {
		if h := javaHash(x.group); h != x.hash {
			t.Errorf("the hash of %q is %d, want %d", x.group, h, x.hash)
		}
		if p := partitionOf(x.group, 50); p != x.partition {
			t.Errorf("the partition of %q is %d, want %d", x.group, p, x.partition)
		}
	}
}
