package broker

import (
	"crypto/rand"

	"sluice/kproto"
)

// newUUID makes a random UUID (version 4) for a topic or a cluster. As in Kafka, one whose text begins with a dash is
// passed over, since command lines would read it as an option.
func newUUID() kproto.TopicID {
	for {
		var id kproto.TopicID
		rand.Read(id[:]) // never fails
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}
