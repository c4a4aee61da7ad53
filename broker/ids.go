package broker

import (
	"crypto/rand"
	"fmt"

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

// uuidString is the form of RFC 9562, as Java prints it.
func uuidString(id kproto.TopicID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
