package log

import "errors"

// The errors that callers tell apart with errors.Is.
var (
	// Of any operation on a partition.
	ErrOffline = errors.New("the partition is offline")
	ErrDeleted = errors.New("the partition was deleted")

	// Of Append.
	ErrOutOfOrderSequence   = errors.New("the producer's sequence number does not follow its last one")
	ErrInvalidProducerEpoch = errors.New("the producer's epoch is older than its last one")
	ErrTooLarge             = errors.New("the batch is larger than a segment")

	// Of Read.
	ErrOffsetOutOfRange = errors.New("the offset is not in the log")
	ErrDamaged          = errors.New("the batch at the offset is damaged")
)
