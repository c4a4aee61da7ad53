package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSmoke(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	m := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 12)
	t.Log(m.Brokers, *m.ClusterID)
}
