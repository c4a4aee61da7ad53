package coord

import (
	"errors"
	"fmt"
)

// What Do, Ask and View may answer instead of a value.
var (
	// ErrNotDurable says that the log could not take or keep the step, or that the machine was dropped for that reason while
	// the request waited in it. The event may or may not survive. Retriable.
	ErrNotDurable = errors.New("coord: the step is not durable")
	// ErrPanic says that the machine panicked on this very event. Not retriable: it would do so again.
	ErrPanic = errors.New("coord: the machine panicked")
	// ErrClosed says that the shard is closed.
	ErrClosed = errors.New("coord: the shard is closed")
)

func notDurable(cause error) error { return fmt.Errorf("%w: %w", ErrNotDurable, cause) }
