package kproto

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DecodeRequest decodes a body into kmsg's struct. The result aliases nothing of body.
func DecodeRequest(key, version int16, body []byte) (kmsg.Request, error) {
	if _, known := Flexible(key, version); !known {
		return nil, Errorf(UnsupportedVersion, "there is no API %d in version %d", key, version)
	}
	request := kmsg.RequestForKey(key)
	request.SetVersion(version)
	if err := request.ReadFrom(slices.Clone(body)); err != nil {
		return nil, badRequest("the body of API %d in version %d: %v", key, version, err)
	}
	return request, nil
}
