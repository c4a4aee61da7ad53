package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
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
