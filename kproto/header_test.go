package kproto

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frame gives a request's header and body without the size, as kmsg writes it.
func frame(request kmsg.Request, clientID string) []byte {
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	return formatter.AppendRequest(nil, request, 77)[4:]
}

func TestParseRequestHeader(t *testing.T) {
	for key := range int16(kmsg.MaxKey + 1) {
		for version := range MaxKnownVersion(key) + 1 {
			if key == int16(kmsg.ControlledShutdown) && version == 0 {
				continue // its header has no client id, and only brokers of old send it
			}
			request := kmsg.RequestForKey(key)
			request.SetVersion(version)
			h, body, err := ParseRequestHeader(frame(request, "client"))
			if want := (RequestHeader{key, version, 77, "client"}); err != nil || h != want {
				t.Errorf("got %+v, %v, want %+v", h, err, want)
			}
			if want := request.AppendTo(nil); !bytes.Equal(body, want) {
				t.Errorf("API %d version %d: body is %x, want %x", key, version, body, want)
			}
		}
	}
}

// header writes the parts of a header by hand.
func header(key, version int16, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(append(b, 0, 0, 0, 9), rest...)
}

func TestParseRequestHeaderClientID(t *testing.T) {
	if h, _, err := ParseRequestHeader(header(18, 0, 0xff, 0xff)); err != nil || h.ClientID != "" || h.CorrelationID != 9 {
		t.Errorf("null: %+v, %v", h, err)
	}
	long := strings.Repeat("\xff", 32767)
	if h, _, err := ParseRequestHeader(header(18, 0, append([]byte{0x7f, 0xff}, long...)...)); err != nil || h.ClientID != long {
		t.Errorf("long and not UTF-8: %d bytes, %v", len(h.ClientID), err)
	}
}

// tagList writes a count and tags of size bytes each.
func tagList(count int, numbers []int, size int) []byte {
	b := binary.AppendUvarint(nil, uint64(count))
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendUvarint(b, uint64(size))
		b = append(b, make([]byte, size)...)
	}
	return b
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func TestParseRequestHeaderTags(t *testing.T) {
	client := []byte{0xff, 0xff}
	for _, tt := range []struct {
		name string
		tags []byte
		ok   bool
	}{
		{"none", tagList(0, nil, 0), true},
		{"as many as may be", tagList(maxTags, numbers(maxTags), maxTagBytes/maxTags), true},
		{"one too many", tagList(maxTags+1, numbers(maxTags+1), 0), false},
		{"one byte too many", tagList(1, numbers(1), maxTagBytes+1), false},
		{"too many bytes in all", tagList(2, numbers(2), maxTagBytes/2+1), false},
		{"twice the same", tagList(2, []int{5, 5}, 0), false},
		{"unsorted", tagList(2, []int{6, 5}, 0), false},
		{"count lies", tagList(3, numbers(2), 1), false},
		{"count huge", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, false},
		{"count endless", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, false},
		{"size lies", []byte{1, 0, 6, 1}, false},
		{"missing", nil, false},
	} {
		h, body, err := ParseRequestHeader(header(18, 3, append(client, append(tt.tags, "body"...)...)...))
		if tt.ok && (err != nil || string(body) != "body") || !tt.ok && tt.name != "missing" && errCode(err) != InvalidRequest {
			t.Errorf("%s: %+v, body %q, %v", tt.name, h, body, err)
		}
	}
	if _, _, err := ParseRequestHeader(header(18, 3, client...)); errCode(err) != InvalidRequest {
		t.Errorf("missing: %v", err)
	}
}

func TestParseRequestHeaderUnknown(t *testing.T) {
	for _, version := range []int16{MaxKnownVersion(18) + 1, 32767, -1} {
		h, body, err := ParseRequestHeader(header(18, version, 0, 1, 'c', 0xde, 0xad))
		if want := (RequestHeader{18, version, 9, "c"}); err != nil || h != want || body != nil {
			t.Errorf("ApiVersions %d: %+v, body %x, %v", version, h, body, err)
		}
	}
	for _, key := range []int16{-1, 5000, kmsg.MaxKey + 1} {
		if h, _, err := ParseRequestHeader(header(key, 0, 0xff, 0xff)); errCode(err) != UnsupportedVersion || h.Key != key {
			t.Errorf("key %d: %+v, %v", key, h, err)
		}
	}
	for _, version := range []int16{-1, MaxKnownVersion(0) + 1} {
		if h, _, err := ParseRequestHeader(header(0, version, 0xff, 0xff)); errCode(err) != UnsupportedVersion || h.Version != version {
			t.Errorf("Produce %d: %+v, %v", version, h, err)
		}
	}
}

func TestParseRequestHeaderCut(t *testing.T) {
	whole := header(18, 0, 0, 3, 'a', 'b', 'c')
	for n := range whole {
		if _, _, err := ParseRequestHeader(whole[:n]); errCode(err) != InvalidRequest {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := ParseRequestHeader(header(18, 0, 0xff, 0xfe)); errCode(err) != InvalidRequest {
		t.Errorf("length -2: %v", err)
	}
}

func TestFlexibleAgreesWithKmsg(t *testing.T) {
	for key := int16(-1); key <= kmsg.MaxKey+1; key++ {
		request := kmsg.RequestForKey(key)
		if request == nil {
			if MaxKnownVersion(key) != -1 {
				t.Errorf("API %d is known", key)
			}
			continue
		}
		if MaxKnownVersion(key) != request.MaxVersion() {
			t.Errorf("API %d: max version %d, want %d", key, MaxKnownVersion(key), request.MaxVersion())
		}
		for version := int16(-1); version <= request.MaxVersion()+1; version++ {
			request.SetVersion(version)
			flexible, known := Flexible(key, version)
			if known != (version >= 0 && version <= request.MaxVersion()) || known && flexible != request.IsFlexible() {
				t.Errorf("API %d version %d: flexible %v, known %v", key, version, flexible, known)
			}
		}
	}
	if n := testing.AllocsPerRun(10, func() { Flexible(1, 12) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendResponse(t *testing.T) {
	for _, tt := range []struct {
		key, version int16
		tags         bool
	}{{18, 0, false}, {18, 4, false}, {3, 8, false}, {3, 9, true}} {
		response := kmsg.ResponseForKey(tt.key)
		response.SetVersion(tt.version)
		body := response.AppendTo(nil)
		got := AppendResponse([]byte("before"), 0x01020304, response)
		want := []byte{1, 2, 3, 4}
		if tt.tags {
			want = append(want, 0)
		}
		want = append(want, body...)
		want = append(binary.BigEndian.AppendUint32([]byte("before"), uint32(len(want))), want...)
		if !bytes.Equal(got, want) {
			t.Errorf("API %d version %d: got %x, want %x", tt.key, tt.version, got, want)
		}
	}
}

func TestRequestHeaderKeepsClientID(t *testing.T) {
	frame := header(0, 9, append([]byte{0, 6}, "client\x00"...)...)
	var h RequestHeader
	if _, err := h.Parse(frame); err != nil || h.ClientID != "client" {
		t.Fatal(h, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = h.Parse(frame) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	if _, err := h.Parse(header(18, 0, 0, 1, 'x')); err != nil || h.ClientID != "x" || h.Version != 0 {
		t.Fatal(h, err)
	}
}
