package log

import (
	"errors"
	"fmt"
)

// Errors of an append. The batch was not appended.
var (
	// ErrTooLarge: the batch is larger than segment.bytes, or one of the broker itself than a file may be.
	ErrTooLarge = errors.New("batch is larger than segment.bytes")
	// ErrOutOfOrderSequence: the batch does not follow the producer's last one (KIP-98).
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrInvalidProducerEpoch: a newer epoch of the producer has written.
	ErrInvalidProducerEpoch = errors.New("producer epoch is older than the last one seen")
)

// Errors of a read.
var (
	// ErrOffsetOutOfRange: the offset is below the log's start or above the limit given.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrDamaged: the bytes there are not what was once durable. Earlier offsets can be read.
	ErrDamaged = errors.New("data is damaged")
)

// Errors of any call.
var (
	// ErrStorage: the disk refused an operation; the log stands as before it and the call may be repeated.
	ErrStorage = errors.New("storage error")
	// ErrTooManyFiles: as many files are open as may be, and all are in use. It is an ErrStorage too.
	ErrTooManyFiles = errors.New("too many open files")
	// ErrOffline: the log cannot be used until the broker is restarted (or never, when its files are damaged).
	ErrOffline = errors.New("partition is offline")
	// ErrDeleted: the partition was deleted.
	ErrDeleted = errors.New("partition was deleted")
	// ErrClosed: the data directory was closed.
	ErrClosed = errors.New("data directory is closed")
	// ErrNotDurable: the sync that should have made the append durable failed; the append was taken back.
	ErrNotDurable = errors.New("append could not be made durable and was taken back")
)

// Errors of opening a data directory.
var (
	// ErrInUse: another broker holds the data directory.
	ErrInUse = errors.New("data directory is in use by another broker")
	// ErrNewer: a later version has written to the data directory, in a form that this one does not read. Nothing was changed.
	ErrNewer = errors.New("data directory was written by a newer version of sluice")
)

func storageError(what string, cause error) error {
	return fmt.Errorf("%s: %w: %w", what, ErrStorage, cause)
}
