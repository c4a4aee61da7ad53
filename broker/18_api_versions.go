package broker

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/server"
	"sluice/kproto"
)

const apiVersionsKey = 18

// softwareName is what KIP-511 allows for the client's name and version.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersions answers ApiVersions, v0-4: one entry for each row of the table.
//
// No feature is finalized: transaction.version and group.version are promises that steer clients (KIP-584, KIP-890,
// KIP-848), and come with the transactions and groups they speak of.
//
//	v1  throttle time
//	v3  client software name and version (KIP-511): refused with INVALID_REQUEST when they cannot be a metric's label
//	v4  fixes the smallest version of a supported feature, of which there is none
func (b *Broker) apiVersions(c *call, q *kmsg.ApiVersionsRequest) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if c.Version >= 3 && !(softwareName.MatchString(q.ClientSoftwareName) && softwareName.MatchString(q.ClientSoftwareVersion)) {
		resp.ErrorCode = c.code(kproto.Errorf(kproto.InvalidRequest, "The client software name or version has forbidden characters."))
		c.answer(resp)
		return
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, len(table))
	for i, r := range table {
		resp.ApiKeys[i] = r.apiKey()
	}
	c.answer(resp)
}

func (r *row) apiKey() kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = r.key, r.min, r.max
	return k
}

// unsupportedAPIVersions answers a version that is not served in version 0, which every client can read, with the range
// that is (KIP-511).
func (b *Broker) unsupportedAPIVersions(r *server.Request) {
	row := rowOf(apiVersionsKey)
	b.metrics.requested(row)
	b.metrics.failed(row, kproto.UnsupportedVersion)
	resp := kmsg.NewPtrApiVersionsResponse() // of version 0
	resp.ErrorCode = kproto.UnsupportedVersion
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{row.apiKey()}
	buf := kproto.AppendResponse(server.GetBuffer(smallReply), r.CorrelationID, resp)
	r.Reply(server.Reply{Parts: []server.Part{{Bytes: buf, Pool: true}}})
}
