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
// group.version 1 is finalized (KIP-584): groups of the consumer protocol are served (KIP-848). transaction.version is not:
// it is a promise that steers clients (KIP-890), and comes with the transactions it speaks of.
//
//	v1  throttle time
//	v3  client software name and version (KIP-511): refused with INVALID_REQUEST when they cannot be a metric's label
//	v3  also the features; supported ones from version 0 on are left out, for clients refuse them in this version
//	v4  all supported features
func (b *Broker) apiVersions(c *call, q *kmsg.ApiVersionsRequest) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if c.Version >= 3 && !(softwareName.MatchString(q.ClientSoftwareName) && softwareName.MatchString(q.ClientSoftwareVersion)) {
		resp.ErrorCode = c.code(kproto.Errorf(kproto.InvalidRequest, "The client software name or version has forbidden characters."))
		c.answer(resp)
		return
	}
	if c.Version >= 3 {
		c.conn().setSoftware(q.ClientSoftwareName, q.ClientSoftwareVersion)
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, len(table))
	for i, r := range table {
		resp.ApiKeys[i] = r.apiKey()
	}
	if c.Version >= suppressedFeatures {
		addFeatures(c.Version, resp)
	}
	c.answer(resp)
}

// suppressedFeatures is the version of ApiVersions that first tells features, and not those supported from version 0 on.
const suppressedFeatures = 3

// groupVersion is the feature that stands for KIP-848 in version 1.
const groupVersion = "group.version"

func addFeatures(version int16, resp *kmsg.ApiVersionsResponse) {
	if version > suppressedFeatures {
		f := kmsg.NewApiVersionsResponseSupportedFeature()
		f.Name, f.MinVersion, f.MaxVersion = groupVersion, 0, 1
		resp.SupportedFeatures = append(resp.SupportedFeatures, f)
	}
	f := kmsg.NewApiVersionsResponseFinalizedFeature()
	f.Name, f.MinVersionLevel, f.MaxVersionLevel = groupVersion, 1, 1
	resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	resp.FinalizedFeaturesEpoch = 0 // they never change while a broker runs
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
