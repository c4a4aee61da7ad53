package kproto

import (
	"encoding/base64"
	"fmt"
)

// TopicID is a topic's UUID (KIP-516). Its text is Kafka's: 22 characters of unpadded URL base64.
type TopicID [16]byte

// topicIDText refuses stray bits after the last byte, so that every id has exactly one text.
var topicIDText = base64.RawURLEncoding.Strict()

func (id TopicID) String() string { return topicIDText.EncodeToString(id[:]) }

// IsZero reports the id that stands for "no id" on the wire.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// ParseTopicID reads what String wrote.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	if len(s) != topicIDText.EncodedLen(len(id)) {
		return id, fmt.Errorf("parse topic id %.40q: it has %d characters, not 22", s, len(s))
	}
	if _, err := topicIDText.Decode(id[:], []byte(s)); err != nil {
		return TopicID{}, fmt.Errorf("parse topic id %q: %w", s, err)
	}
	return id, nil
}
