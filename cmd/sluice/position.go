package main

import (
	"fmt"
	"strconv"
	"time"
)

// position is where in a partition to begin reading.
type position struct {
	kind positionKind
	n    int64 // an offset, a number of records, or milliseconds since 1970, by kind
}

type positionKind int

const (
	fromBeginning positionKind = iota
	fromEnd
	fromOffset // at offset n
	fromLast   // n offsets before the end
	fromTime   // at the first record whose timestamp is n or later
)

// UnmarshalText reads "beginning", "end", an offset, or -N for the last N.
func (p *position) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "beginning":
		*p = position{kind: fromBeginning}
	case "end":
		*p = position{kind: fromEnd}
	default:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is none of: beginning, end, an offset, -N for the last N", s)
		}
		*p = position{fromOffset, n}
		if n < 0 {
			*p = position{fromLast, -n}
		}
	}
	return nil
}

// instant is a time flag: RFC 3339, UTC if no zone is given, or milliseconds since 1970.
type instant struct{ millis int64 }

// UnmarshalText reads "2026-01-02T15:04:05Z", "2026-01-02" (midnight UTC) or "1767366245000".
func (i *instant) UnmarshalText(text []byte) error {
	if ms, err := strconv.ParseInt(string(text), 10, 64); err == nil && ms >= 0 {
		i.millis = ms
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, string(text)); err == nil {
			i.millis = t.UnixMilli()
			return nil
		}
	}
	return fmt.Errorf("%q is neither a time like 2026-01-02T15:04:05Z nor milliseconds since 1970", text)
}

// limit is where to stop reading.
type limit struct {
	kind   limitKind
	offset int64 // the first offset not to read, for untilOffset
}

type limitKind int

const (
	untilForever limitKind = iota
	untilEnd               // the end that the partition has when the command starts
	untilOffset
)

// UnmarshalText reads "forever", "end" or an offset.
func (l *limit) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "forever":
		*l = limit{kind: untilForever}
	case "end":
		*l = limit{kind: untilEnd}
	default:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is none of: forever, end, an offset", s)
		}
		*l = limit{untilOffset, n}
	}
	return nil
}

// bounds are the offsets of one partition: its first record, the one after its last, and, when a time was asked for,
// the first record at or after it (the end if there is none).
type bounds struct{ start, end, atTime int64 }

// span is the part of a partition to read: from start up to but not including stop; a stop of noStop never comes.
type span struct{ start, stop int64 }

const noStop = -1

// done tells whether the span is read when next is the offset of the next record.
func (s span) done(next int64) bool { return s.stop != noStop && next >= s.stop }

// spanOf works out what to read of a partition.
func spanOf(b bounds, from position, until limit) (span, error) {
	start, err := startOf(b, from)
	if err != nil {
		return span{}, err
	}
	switch until.kind {
	case untilEnd:
		return span{start, b.end}, nil
	case untilOffset:
		return span{start, until.offset}, nil
	}
	return span{start, noStop}, nil
}

func startOf(b bounds, from position) (int64, error) {
	switch from.kind {
	case fromBeginning:
		return b.start, nil
	case fromEnd:
		return b.end, nil
	case fromLast:
		return max(b.start, b.end-from.n), nil
	case fromTime:
		return b.atTime, nil
	}
	if from.n < b.start || from.n > b.end {
		return 0, fmt.Errorf("offset %d is not in the log, which holds offsets from %d up to but not including %d", from.n, b.start, b.end)
	}
	return from.n, nil
}
