package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"sluice/internal/coord"
	"sluice/kproto"
	"sluice/log"
)

// codes says which of Kafka's codes the errors of the rooms below become, with the message for the client's user. The
// first that matches counts. Errors that carry their code (*kproto.Error) need no line.
var codes = []struct {
	err  error
	code int16
	text string
}{
	{log.ErrOffsetOutOfRange, kproto.OffsetOutOfRange, "The offset is outside of the partition's range."},
	{log.ErrTooLarge, kproto.RecordListTooLarge, "The batch is larger than segment.bytes."},
	{log.ErrOutOfOrderSequence, kproto.OutOfOrderSequenceNumber, "The batch does not follow the producer's last one."},
	{log.ErrInvalidProducerEpoch, kproto.InvalidProducerEpoch, "A newer epoch of the producer has written already."},
	{log.ErrDeleted, kproto.UnknownTopicOrPartition, "The topic was deleted."},
	{log.ErrDamaged, kproto.KafkaStorageError, "The data at this offset is damaged."},
	{log.ErrOffline, kproto.KafkaStorageError, "The partition is offline."},
	{log.ErrNotDurable, kproto.KafkaStorageError, "The write could not be made durable and was taken back."},
	{log.ErrStorage, kproto.KafkaStorageError, "The disk refused the operation."},
	{log.ErrClosed, kproto.NotLeaderOrFollower, "The broker is shutting down."},
	{coord.ErrNotDurable, kproto.KafkaStorageError, "The change could not be made durable."},
	{coord.ErrClosed, kproto.NotController, "The broker is shutting down."},
	{coord.ErrPanic, kproto.UnknownServerError, "The server met an unexpected error; its log says more."},
	{context.DeadlineExceeded, kproto.RequestTimedOut, "The request timed out; it may still take effect."},
	{context.Canceled, kproto.RequestTimedOut, "The client hung up before the request was done."},
}

// codeFor maps an error of the rooms below to Kafka's code and message. An unmapped one is a defect: it is logged once
// and answered UNKNOWN_SERVER_ERROR, without its text, which may tell what the client should not know.
func codeFor(err error) (int16, string) {
	if err == nil {
		return kproto.NoError, ""
	}
	var coded *kproto.Error
	if errors.As(err, &coded) {
		return coded.Code, coded.Message
	}
	for i := range codes {
		if errors.Is(err, codes[i].err) {
			return codes[i].code, codes[i].text
		}
	}
	if unmapped.first(err) {
		slog.Error("an error has no Kafka code", "err", err)
	}
	return kproto.UnknownServerError, "The server met an unexpected error; its log says more."
}

// unmapped are the errors logged by codeFor, in the whole process: each is a defect to be seen once.
var unmapped onceErrors

// maxUnmapped bounds the memory of errors that were logged already.
const maxUnmapped = 100

// onceErrors remembers errors by their text.
type onceErrors struct {
	mu   sync.Mutex
	seen map[string]bool
}

// first tells whether the error is new. When too many were seen it says no: the log has enough to go by.
func (o *onceErrors) first(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := err.Error()
	if o.seen[text] || len(o.seen) >= maxUnmapped {
		return false
	}
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	o.seen[text] = true
	return true
}
