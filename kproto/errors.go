package kproto

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Error is a Kafka error code with a message fit for an error_message field.
type Error struct {
	Code    int16
	Message string
}

// Errorf makes an *Error; the message is a sentence for the client's user.
func Errorf(code int16, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Message == "" {
		return CodeName(e.Code)
	}
	return CodeName(e.Code) + ": " + e.Message
}

// Is compares codes, with another *Error and with the errors of franz-go's kerr.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case *Error:
		return t.Code == e.Code
	case *kerr.Error:
		return t.Code == e.Code
	}
	return false
}

// CodeOf finds the *Error in err's chain. It gives NoError for nil, and UnknownServerError and
// false when there is none: that is a failure nobody mapped.
func CodeOf(err error) (code int16, ok bool) {
	if err == nil {
		return NoError, true
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code, true
	}
	return UnknownServerError, false
}

// corrupt is the code clients retry with the same bytes: the batch was damaged on its way.
func corrupt(format string, args ...any) *Error { return Errorf(CorruptMessage, format, args...) }

// invalid is the code clients give up on: the batch says what no batch may say.
func invalid(format string, args ...any) *Error { return Errorf(InvalidRecord, format, args...) }
