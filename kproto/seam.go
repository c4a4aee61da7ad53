package kproto

import "github.com/twmb/franz-go/pkg/kmsg"

// SEAM FILE: signatures that other rooms build on; the implementation replaces this file by several (ids.go, batch.go, check.go, codec.go, request.go ...).

// TopicID is a topic's UUID. String is Kafka's form: 22 characters of unpadded URL base64.
type TopicID [16]byte

func (id TopicID) String() string            { panic("seam") }
func (id TopicID) IsZero() bool              { return id == TopicID{} }
func ParseTopicID(s string) (TopicID, error) { panic("seam") }

// Error is a Kafka error code with a message fit for an error_message field. errors.Is compares codes.
type Error struct {
	Code    int16
	Message string
}

func (e *Error) Error() string        { panic("seam") }
func (e *Error) Is(target error) bool { panic("seam") }

// CodeOf finds the *Error in err's chain; 0 for nil; -1 (UNKNOWN_SERVER_ERROR) and false when there is none.
func CodeOf(err error) (code int16, ok bool) { panic("seam") }

// Batch is one record batch v2, header and records, exactly its own bytes. Accessors read the header in place; they require len >= HeaderSize.
type Batch []byte

const HeaderSize = 61 // bytes up to and including the record count

func (b Batch) BaseOffset() int64      { panic("seam") }
func (b Batch) Length() int32          { panic("seam") } // value of the length field; len(b) == Length()+12
func (b Batch) LeaderEpoch() int32     { panic("seam") }
func (b Batch) Magic() int8            { panic("seam") }
func (b Batch) CRC() uint32            { panic("seam") }
func (b Batch) Attributes() int16      { panic("seam") }
func (b Batch) LastOffsetDelta() int32 { panic("seam") }
func (b Batch) BaseTimestamp() int64   { panic("seam") }
func (b Batch) MaxTimestamp() int64    { panic("seam") }
func (b Batch) ProducerID() int64      { panic("seam") }
func (b Batch) ProducerEpoch() int16   { panic("seam") }
func (b Batch) BaseSequence() int32    { panic("seam") }
func (b Batch) LastSequence() int32    { panic("seam") } // wraps to 0 after 2147483647
func (b Batch) Count() int32           { panic("seam") }
func (b Batch) LastOffset() int64      { panic("seam") }
func (b Batch) NextOffset() int64      { panic("seam") } // LastOffset()+1
func (b Batch) Codec() Codec           { panic("seam") }
func (b Batch) Transactional() bool    { panic("seam") }
func (b Batch) Control() bool          { panic("seam") }
func (b Batch) LogAppendTime() bool    { panic("seam") }

// ValidCRC computes CRC-32C over the bytes from Attributes on.
func (b Batch) ValidCRC() bool { panic("seam") }

// SetBaseOffset and SetLeaderEpoch stamp in place; both are outside the CRC.
func (b Batch) SetBaseOffset(offset int64) { panic("seam") }
func (b Batch) SetLeaderEpoch(epoch int32) { panic("seam") }

// SetAppendTime sets the LogAppendTime bit, the max timestamp, and the CRC.
func (b Batch) SetAppendTime(ms int64) { panic("seam") }

// SplitBatch cuts the first batch off b: it checks only the length field (>= HeaderSize-12) and that b holds it.
func SplitBatch(b []byte) (first Batch, rest []byte, err error) { panic("seam") }

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

// Record is one record of a batch. Key and Value alias the decompressed bytes. nil Key/Value means null.
type Record struct {
	Offset    int64
	Timestamp int64 // ms, the batch's max timestamp under LogAppendTime
	Key       []byte
	Value     []byte
	Headers   []Header
}
type Header struct {
	Key   string
	Value []byte
}

// EachRecord decompresses (within the caps of codec.go) and walks the records; fn returns false to stop.
func (b Batch) EachRecord(fn func(Record) bool) error { panic("seam") }

// Builder makes a batch from records; used by internal logs, recompression and tests.
type Builder struct {
	Codec         Codec
	ProducerID    int64 // with the zero Builder these three are -1: use NewBuilder
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
	// ...
}

func NewBuilder(c Codec) *Builder { panic("seam") }
func (b *Builder) Add(r Record)   { panic("seam") } // Offset is ignored (the next delta) unless SetOffsets was chosen
func (b *Builder) Batch() Batch   { panic("seam") } // a fresh slice, CRC set

// Recompress returns the batch with its records in another codec (compression.type other than producer).
func Recompress(b Batch, c Codec, level int) (Batch, error) { panic("seam") }

// Codec is the compression id in the batch attributes.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

func (c Codec) String() string           { panic("seam") } // "none", "gzip", ...
func ParseCodec(s string) (Codec, error) { panic("seam") }

// Compress appends to dst. Snappy is written as xerial framing (what Java reads).
func (c Codec) Compress(dst, src []byte, level int) ([]byte, error) { panic("seam") }

// Decompress appends to dst at most limit bytes; more is an error (a *Error with code 10).
func (c Codec) Decompress(dst, src []byte, limit int) ([]byte, error) { panic("seam") }

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
