package kproto

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersionsKey is the API whose headers have rules of their own, because it comes before client
// and broker know each other's versions (KIP-511).
const apiVersionsKey = int16(kmsg.ApiVersions)

// RequestHeader is what stands before a request's body.
type RequestHeader struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" for null; any bytes, UTF-8 or not
}

// fixedHeaderSize is key, version and correlation id.
const fixedHeaderSize = 8

// ParseRequestHeader is RequestHeader.Parse into a new header.
func ParseRequestHeader(frame []byte) (h RequestHeader, body []byte, err error) {
	body, err = h.Parse(frame)
	return h, body, err
}

// Parse reads the header of a frame (without its size) and gives the body. Whether the header ends in tags is the
// matter of key and version, see Flexible. An unknown key or version gives an *Error of code 35 with the header filled in;
// only ApiVersions of any version above the known ones gives no error and no body, so that it can be answered in version 0.
//
// A client id that is the same as in h before keeps its string, so that a connection's requests allocate none.
func (h *RequestHeader) Parse(frame []byte) (body []byte, err error) {
	*h = RequestHeader{ClientID: h.ClientID}
	if len(frame) < fixedHeaderSize {
		return nil, badRequest("the request's header is cut short at %d bytes", len(frame))
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	w := headerWalker(frame[fixedHeaderSize:])
	client, ok := w.text(true) // of the classic encoding in every version
	if !ok {
		return nil, badRequest("the client id does not fit the request")
	}
	if h.ClientID != string(client) {
		h.ClientID = string(client)
	}
	flexible, known := Flexible(h.Key, h.Version)
	switch {
	case !known && h.Key == apiVersionsKey:
		return nil, nil
	case !known:
		return nil, Errorf(UnsupportedVersion, "there is no API %d in version %d", h.Key, h.Version)
	case flexible && !w.tags(nil):
		return nil, badRequest("the tags of the request's header are unsound")
	}
	return w.rest, nil
}

// badRequest is for bytes that are no request: the connection is closed.
func badRequest(format string, args ...any) *Error { return Errorf(InvalidRequest, format, args...) }

// version range of an API as far as kmsg knows it.
type apiRange struct {
	known         bool
	max           int16
	firstFlexible int16 // max+1 when none is
}

// apiRanges is asked for every request, so it is made once and is an array.
var apiRanges = makeAPIRanges()

func makeAPIRanges() (ranges [kmsg.MaxKey + 1]apiRange) {
	for key := range ranges {
		request := kmsg.RequestForKey(int16(key))
		if request == nil {
			continue
		}
		r := &ranges[key]
		r.known, r.max = true, request.MaxVersion()
		for r.firstFlexible = 0; r.firstFlexible <= r.max; r.firstFlexible++ {
			if request.SetVersion(r.firstFlexible); request.IsFlexible() {
				break
			}
		}
	}
	return ranges
}

func rangeOf(key int16) apiRange {
	if key < 0 || int(key) >= len(apiRanges) {
		return apiRange{}
	}
	return apiRanges[key]
}

// Flexible says whether a request has header version 2 and tagged fields (KIP-482), and whether the
// API and its version are known at all.
func Flexible(key, version int16) (flexible, known bool) {
	r := rangeOf(key)
	if !r.known || version < 0 || version > r.max {
		return false, false
	}
	return version >= r.firstFlexible, true
}

// MaxKnownVersion is the highest version of an API that can be decoded; -1 for an unknown API.
func MaxKnownVersion(key int16) int16 {
	if r := rangeOf(key); r.known {
		return r.max
	}
	return -1
}

// AppendResponse appends size (4 bytes), response header and body. The header is version 1, with
// tags, for flexible responses; ApiVersions always has version 0 (KIP-511).
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if resp.IsFlexible() && resp.Key() != apiVersionsKey {
		dst = append(dst, 0) // no tags
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
