package kproto

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DecodeRequest decodes a body into kmsg's struct, after walking it within the bounds of walk.go:
// counts, lengths, nulls and tags are checked, and what they will take in memory, before anything is
// allocated. Bytes behind the body are ignored, as in Kafka. The result aliases nothing of body.
//
// The error is an *Error: 35 for an API or version without a schema, 42 for bytes that are no such request.
func DecodeRequest(key, version int16, body []byte) (kmsg.Request, error) {
	flexible, known := Flexible(key, version)
	if !known || schemas[key] == nil {
		return nil, Errorf(UnsupportedVersion, "requests of API %d in version %d are not decoded", key, version)
	}
	w := bodyWalker(body, version, flexible)
	if !w.group(schemas[key]) {
		return nil, badRequest("the body of %s version %d is unsound at %s", kmsg.NameForKey(key), version, w.failedAt())
	}
	request := kmsg.RequestForKey(key)
	request.SetVersion(version)
	// kmsg's []byte fields alias what it reads.
	if err := request.ReadFrom(bytes.Clone(body[:len(body)-len(w.rest)])); err != nil {
		return nil, badRequest("the body of %s version %d: %v", kmsg.NameForKey(key), version, err)
	}
	return request, nil
}
