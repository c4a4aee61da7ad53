package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// resetBounds lists the offsets of topics that a target stands on.
func resetBounds(ctx context.Context, admin *kadm.Client, topics []string, target resetTarget) (map[partition]bounds, error) {
	starts, ends, err := logBounds(ctx, admin, topics)
	if err != nil {
		return nil, err
	}
	times := kadm.ListedOffsets{}
	if target.kind == toTime {
		if times, err = admin.ListOffsetsAfterMilli(ctx, target.n, topics...); err != nil {
			return nil, err
		}
	}
	all := map[partition]bounds{}
	for topic, partitions := range ends {
		for p, end := range partitions {
			if p < 0 { // stands for a topic that does not exist
				continue
			}
			start, at := starts[topic][p], times[topic][p]
			if err := errors.Join(start.Err, end.Err, at.Err); err != nil {
				return nil, err
			}
			all[partition{topic, p}] = bounds{start: start.Offset, end: end.Offset, atTime: at.Offset}
		}
	}
	return all, nil
}

// resetTarget is where the offset of a partition goes.
type resetTarget struct {
	kind resetKind
	n    int64 // an offset, a number of offsets, or milliseconds since 1970, by kind
}

type resetKind int

const (
	toEarliest resetKind = iota
	toLatest
	toCurrent
	toOffset // to offset n
	toTime   // to the first record whose timestamp is n or later, or the end
	shiftBy  // by n offsets
)

var errNothingToShift = errors.New("the group has no offset there that could be shifted: use another target, such as --to-earliest")

// offset works out where a partition goes, before it is brought into the log's bounds.
func (t resetTarget) offset(b bounds, current *int64) (int64, error) {
	switch t.kind {
	case toLatest:
		return b.end, nil
	case toCurrent:
		if current == nil {
			return b.end, nil
		}
		return *current, nil
	case toOffset:
		return t.n, nil
	case toTime:
		return b.atTime, nil
	case shiftBy:
		if current == nil {
			return 0, errNothingToShift
		}
		return shifted(*current, t.n), nil
	}
	return b.start, nil
}

// shifted adds n to an offset, and stays where it can be told from an overflow.
func shifted(offset, n int64) int64 {
	const most = 1<<63 - 1
	if n > 0 && offset > most-n {
		return most
	}
	return offset + n // offsets are not negative, so that this cannot fall below the least
}

// isoDuration is a length of time as Kafka's tools take it, or as Go writes it.
type isoDuration struct{ time.Duration }

// isoShape is the part of ISO 8601 that Java's Duration reads: days of 24 hours, and a time.
var isoShape = regexp.MustCompile(`^P(?:(\d+)D)?(?:T((?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?))?$`)

// UnmarshalText reads "P1DT2H30M", "PT0.5S" or "26h30m".
func (d *isoDuration) UnmarshalText(text []byte) error {
	var err error
	if m := isoShape.FindStringSubmatch(strings.ToUpper(string(text))); m != nil && m[1]+m[2] != "" {
		d.Duration, err = isoTime(m[1], strings.ToLower(m[2]))
	} else {
		d.Duration, err = time.ParseDuration(string(text))
	}
	if err != nil || d.Duration < 0 {
		return fmt.Errorf("%q is not a length of time like P1DT2H or 26h", text)
	}
	return nil
}

// isoTime adds days, which Go does not know, to a time in Go's form. Either may be empty.
func isoTime(days, rest string) (time.Duration, error) {
	const day = 24 * time.Hour
	n, err := strconv.ParseInt("0"+days, 10, 64)
	if err != nil || n > int64((1<<63-1)/day) {
		return 0, errors.New("too many days")
	}
	if rest == "" {
		rest = "0s"
	}
	d, err := time.ParseDuration(rest)
	return time.Duration(n)*day + d, err // a sum that overflows is negative, which the caller refuses
}
