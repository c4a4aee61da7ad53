package kproto

import "github.com/twmb/franz-go/pkg/kmsg"

// SEAM FILE: signatures that other rooms build on; the implementation replaces this file by several (ids.go, batch.go, check.go, codec.go, request.go ...).

// CheckOptions are the rules of one topic for a client's batch (bad-input.md 6.3).
type CheckOptions struct {
	ProduceVersion int16
	Strict         bool  // walk (and decompress) the records; relaxed checks the header and the CRC of compressed batches only
	MaxBytes       int   // max.message.bytes -> MESSAGE_TOO_LARGE 10
	SegmentBytes   int64 // -> RECORD_LIST_TOO_LARGE 18
	Compacted      bool  // null keys -> 87
	LogAppendTime  bool  // then timestamps are not checked
	Now            int64 // ms
	BeforeMaxMs    int64 // message.timestamp.before.max.ms
	AfterMaxMs     int64 // message.timestamp.after.max.ms
}

// CheckProduced checks the records field of one partition of a Produce request: exactly one batch v2 that a client may send.
// The error is an *Error with Kafka's code; RecordErrors is filled for per-record refusals (KIP-467).
func CheckProduced(records []byte, o CheckOptions) (Batch, []RecordError, error) { panic("seam") }

type RecordError struct {
	Index   int32
	Message string
}

// Recompress returns the batch with its records in another codec (compression.type other than producer).
func Recompress(b Batch, c Codec, level int) (Batch, error) { panic("seam") }

// RequestHeader is what stands before a request's body. Flexible says header version 2 (tags).
type RequestHeader struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" for null
}

// ParseRequestHeader reads the header and gives the body. ApiVersions has its own rule: unknown versions still parse as far as the correlation id.
// flexible(key, version) tells header v2; FlexibleRequest is the table of it from kmsg.
func ParseRequestHeader(frame []byte) (h RequestHeader, body []byte, err error) { panic("seam") }

// DecodeRequest decodes a body into kmsg's struct after walking it with a budget: counts, lengths and tags are checked before
// anything is allocated (bad-input.md 6.1). The result aliases nothing of body.
func DecodeRequest(key, version int16, body []byte) (kmsg.Request, error) { panic("seam") }

// AppendResponse appends size (4 bytes), response header (v0 for ApiVersions always, v1 when flexible) and body.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte { panic("seam") }
