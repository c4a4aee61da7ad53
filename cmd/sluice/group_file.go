package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// csvFile is a flag that names a file of lines topic,partition,offset.
type csvFile struct {
	name    string
	offsets map[partition]int64
}

// UnmarshalText reads the file.
func (f *csvFile) UnmarshalText(text []byte) error {
	file, err := os.Open(string(text))
	if err != nil {
		return err
	}
	defer file.Close()
	f.name = string(text)
	if f.offsets, err = readOffsets(file); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// readOffsets reads lines topic,partition,offset, each partition once.
func readOffsets(r io.Reader) (map[partition]int64, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = 3
	in.TrimLeadingSpace = true
	in.ReuseRecord = true
	offsets := map[partition]int64{}
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		number, errNumber := strconv.ParseInt(fields[1], 10, 32)
		offset, errOffset := strconv.ParseInt(fields[2], 10, 64)
		if errors.Join(errNumber, errOffset) != nil || fields[0] == "" || number < 0 || offset < 0 {
			return nil, fmt.Errorf("line %d is not of the form topic,partition,offset", line)
		}
		p := partition{strings.Clone(fields[0]), int32(number)}
		if _, twice := offsets[p]; twice {
			return nil, fmt.Errorf("line %d: partition %d of topic %s stands there twice", line, p.number, p.topic)
		}
		offsets[p] = offset
	}
	if len(offsets) == 0 {
		return nil, errors.New("the file has no lines topic,partition,offset")
	}
	return offsets, nil
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
