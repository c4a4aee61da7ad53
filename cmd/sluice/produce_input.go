package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordInput is where the records to produce come from.
type recordInput struct {
	records iter.Seq2[*kgo.Record, error]
	size    int64 // bytes that the input will have, 0 if that is not known
	between int64 // bytes of each record's input that are in neither its key nor its value
	large   *atomic.Int64
}

// skipped is how many lines or files were left out as too large.
func (in recordInput) skipped() int64 { return in.large.Load() }

// recordOverhead is the most that a batch and its only record take beside the record's key, value and headers, in
// bytes: 61 for the batch header, and varints for the lengths and deltas.
const recordOverhead = 100

// input opens the source that the flags name.
func (c *produceCmd) input(s *streams) (recordInput, error) {
	in := recordInput{large: new(atomic.Int64)}
	limit := c.MaxBytes - recordOverhead
	for _, kv := range c.Header {
		limit -= len(kv.key) + len(kv.value) + recordOverhead
	}
	tooLarge := func(what string) error {
		if c.SkipLarge {
			in.large.Add(1)
			return nil
		}
		return fmt.Errorf("%s is too large for one record (--max-bytes is %d); raise that, and the topic's max.message.bytes with it, or skip it with --skip-large", what, c.MaxBytes)
	}
	switch {
	case c.FilePerRecord != "":
		tree := fileTree{dir: c.FilePerRecord, limit: limit, tooLarge: tooLarge}
		size, err := tree.size()
		in.size, in.records = size, tree.records()
		return in, err
	case len(c.File) > 0:
		in.size, in.between = totalSize(c.File), int64(len(c.KeyDelimiter)+len("\n"))
		in.records = c.fileLines(limit, tooLarge)
	default:
		in.records = c.lines(s.in, "standard input", limit, tooLarge)
	}
	return in, nil
}

// totalSize adds the sizes of files up, and is 0 if one of them is no regular file.
func totalSize(files []string) (total int64) {
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}

// fileLines yields the lines of all files, one file after the other.
func (c *produceCmd) fileLines(limit int, tooLarge func(string) error) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		for _, name := range c.File {
			file, err := os.Open(name)
			if err != nil {
				yield(nil, fmt.Errorf("read lines: %w", err))
				return
			}
			goOn := true
			for r, err := range c.lines(file, name, limit, tooLarge) {
				if goOn = yield(r, err) && err == nil; !goOn {
					break
				}
			}
			file.Close()
			if !goOn {
				return
			}
		}
	}
}

// lines yields each line of r as a record, without its newline. The last line may lack one; an empty line is a record
// with an empty value. name is the source in errors.
func (c *produceCmd) lines(r io.Reader, name string, limit int, tooLarge func(string) error) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for number := 1; ; number++ {
			line, err := readLine(in, limit+len(c.KeyDelimiter))
			switch {
			case err == io.EOF:
				return
			case err == errLineTooLong:
				if err := tooLarge(fmt.Sprintf("line %d of %s", number, name)); err != nil {
					yield(nil, err)
					return
				}
			case err != nil:
				yield(nil, fmt.Errorf("read line %d of %s: %w", number, name, err))
				return
			default:
				if !yield(c.record(line), nil) {
					return
				}
			}
		}
	}
}

// record makes a record of a line by the key delimiter and the null marker.
func (c *produceCmd) record(line []byte) *kgo.Record {
	r := &kgo.Record{Value: line}
	if c.KeyDelimiter != "" {
		if key, value, ok := bytes.Cut(line, []byte(c.KeyDelimiter)); ok {
			r.Key, r.Value = key, value
		}
	}
	if c.NullValue != nil && string(r.Value) == *c.NullValue {
		r.Value = nil
	}
	return r
}

var errLineTooLong = errors.New("line too long")

// readLine returns the next line without its newline, in memory of its own and never nil. A line of more than limit
// bytes is read to its end, kept nowhere, and gives errLineTooLong; io.EOF means there is no further line.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	line := []byte{}
	for read := 0; ; {
		part, err := in.ReadSlice('\n')
		read += len(part)
		line = append(line, part...)
		if err == bufio.ErrBufferFull {
			if len(line) > limit {
				line = line[:0] // too long for sure; the rest is only counted
			}
			continue
		}
		if err == nil {
			line, read = line[:max(len(line)-1, 0)], read-1
		}
		switch {
		case err != nil && (err != io.EOF || read == 0):
			return nil, err
		case read > limit:
			return nil, errLineTooLong
		}
		return line, nil
	}
}

// fileTree is a directory whose regular files are records.
type fileTree struct {
	dir      string
	limit    int // bytes of key and value together
	tooLarge func(what string) error
}

// walk calls visit for each regular file in lexical order.
func (t fileTree) walk(visit func(path string, size int64) error) error {
	return filepath.WalkDir(t.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return visit(path, info.Size())
	})
}

// size is the bytes of all files and their keys together.
func (t fileTree) size() (total int64, err error) {
	err = t.walk(func(path string, size int64) error {
		key, err := t.key(path)
		total += size + int64(len(key))
		return err
	})
	return total, err
}

// key is the slash-separated path of a file below the directory.
func (t fileTree) key(path string) (string, error) {
	key, err := filepath.Rel(t.dir, path)
	return filepath.ToSlash(key), err
}

// records yields one record a file: its content is the value.
func (t fileTree) records() iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		err := t.walk(func(path string, size int64) error {
			r, err := t.record(path, size)
			if err == nil && r != nil && !yield(r, nil) {
				return fs.SkipAll
			}
			return err
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// record reads one file; it is nil when the file is too large and skipped.
func (t fileTree) record(path string, size int64) (*kgo.Record, error) {
	key, err := t.key(path)
	if err != nil {
		return nil, err
	}
	if size+int64(len(key)) > int64(t.limit) {
		return nil, t.tooLarge(fmt.Sprintf("file %s (%s)", path, byteCount(size)))
	}
	value, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &kgo.Record{Key: []byte(key), Value: value}, nil
}
