package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// DumpedBatch is a batch as it stands in a segment.
type DumpedBatch struct {
	File           string         `json:"file"`
	Position       int64          `json:"position"`
	Size           int64          `json:"size"` // bytes
	BaseOffset     int64          `json:"baseOffset"`
	LastOffset     int64          `json:"lastOffset"`
	Count          int32          `json:"count"`
	LeaderEpoch    int32          `json:"leaderEpoch"`
	BaseTimestamp  int64          `json:"baseTimestamp"`           // ms
	MaxTimestamp   int64          `json:"maxTimestamp"`            // ms
	DeleteHorizon  *int64         `json:"deleteHorizon,omitempty"` // ms: when compaction may drop tombstones or the marker
	LogAppendTime  bool           `json:"logAppendTime"`
	Codec          string         `json:"codec"`
	ProducerID     int64          `json:"producerId"`
	ProducerEpoch  int16          `json:"producerEpoch"`
	BaseSequence   int32          `json:"baseSequence"`
	Transactional  bool           `json:"transactional"`
	Control        bool           `json:"control"`
	CRC            uint32         `json:"crc"`
	Valid          bool           `json:"valid"` // the CRC matches
	Records        []DumpedRecord `json:"records,omitempty"`
	RecordsProblem string         `json:"recordsProblem,omitempty"` // why the records, or some of them, could not be read
}

// DumpedRecord is a record in a batch. A nil key or value is null.
type DumpedRecord struct {
	Offset    int64          `json:"offset"`
	Timestamp int64          `json:"timestamp"` // ms
	Key       []byte         `json:"key"`
	Value     []byte         `json:"value"`
	Headers   []DumpedHeader `json:"headers,omitempty"`
}

// DumpedHeader is a header of a record.
type DumpedHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// DumpedOffset is an entry of an offset index.
type DumpedOffset struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`   // last offset of a batch
	Position int64  `json:"position"` // of that batch
}

// DumpedTime is an entry of a time index.
type DumpedTime struct {
	File      string `json:"file"`
	Timestamp int64  `json:"timestamp"` // ms, the largest so far
	Offset    int64  `json:"offset"`    // last offset of the batch that holds it
}

// Dumper takes what Dump reads. An error ends the dump. Nil fields skip what they would take.
type Dumper struct {
	Batch  func(DumpedBatch) error
	Offset func(DumpedOffset) error
	Time   func(DumpedTime) error
	// Records has the records of batches read too.
	Records bool
}

// Dump reads a segment, an index or a time index, or all segments of a partition directory, and gives what it finds in the order of the bytes. It trusts
// nothing and writes nothing. Where bytes are no batch it ends with an error that is ErrDamaged.
func Dump(fs vfs.FS, path string, d Dumper) error {
	info, err := fs.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return d.file(fs, path)
	}
	entries, err := fs.ReadDir(path)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if _, ok := parseSegmentName(e.Name(), logSuffix); !ok {
			continue
		}
		found = true
		if err := d.file(fs, filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s: %w", path, ErrNoLog)
	}
	return nil
}

func (d *Dumper) file(fs vfs.FS, path string) error {
	f, err := fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	base, _, _ := strings.Cut(filepath.Base(path), ".")
	var first int64
	_, _ = fmt.Sscanf(base, "%d", &first) // 0 for a file that was renamed: its entries are then relative
	switch {
	case strings.HasSuffix(path, indexSuffix):
		return d.offsets(f, first, int(size/offsetEntrySize))
	case strings.HasSuffix(path, timeSuffix):
		return d.times(f, first, int(size/timeEntrySize))
	}
	return d.batches(f, size)
}

func (d *Dumper) offsets(f vfs.File, base int64, n int) error {
	index := offsets{file: f, n: n}
	for i := range n {
		e, err := index.at(i)
		if err == nil && d.Offset != nil {
			err = d.Offset(DumpedOffset{f.Name(), base + int64(e.rel), int64(e.pos)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Dumper) times(f vfs.File, base int64, n int) error {
	index := times{file: f, n: n}
	for i := range n {
		e, err := index.at(i)
		if err == nil && d.Time != nil {
			err = d.Time(DumpedTime{f.Name(), e.time, base + int64(e.rel)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Dumper) batches(f vfs.File, size int64) error {
	w := newWalker(f, 0, size)
	defer w.close()
	for {
		h, pos, n, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s %w", ErrDamaged, f.Name(), err)
		}
		b := dumpHeader(f.Name(), h, pos, n)
		if err := d.body(f, &b); err != nil {
			return err
		}
		if d.Batch != nil {
			if err := d.Batch(b); err != nil {
				return err
			}
		}
	}
}

// body reads the whole batch. A CRC that does not match is told, and no reason to stop.
func (d *Dumper) body(f vfs.File, b *DumpedBatch) error {
	whole, err := readBatch(f, b.Position, b.Size, nil)
	var bad *badBatch
	if errors.As(err, &bad) {
		b.RecordsProblem = bad.reason
		return nil
	}
	if err != nil {
		return err
	}
	b.Valid = true
	if !d.Records {
		return nil
	}
	if err := whole.EachRecord(func(r kproto.Record) bool {
		b.Records = append(b.Records, dumpRecord(r))
		return true
	}); err != nil {
		b.RecordsProblem = err.Error()
	}
	return nil
}

func dumpHeader(file string, h kproto.Batch, pos, size int64) DumpedBatch {
	var horizon *int64
	if ms, ok := h.DeleteHorizon(); ok {
		horizon = &ms
	}
	return DumpedBatch{
		DeleteHorizon: horizon,
		File:          file, Position: pos, Size: size,
		BaseOffset: h.BaseOffset(), LastOffset: h.LastOffset(), Count: h.Count(), LeaderEpoch: h.LeaderEpoch(),
		BaseTimestamp: h.BaseTimestamp(), MaxTimestamp: h.MaxTimestamp(), LogAppendTime: h.LogAppendTime(),
		Codec:      h.Codec().String(),
		ProducerID: h.ProducerID(), ProducerEpoch: h.ProducerEpoch(), BaseSequence: h.BaseSequence(),
		Transactional: h.Transactional(), Control: h.Control(), CRC: h.CRC(),
	}
}

func dumpRecord(r kproto.Record) DumpedRecord {
	d := DumpedRecord{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		d.Headers = append(d.Headers, DumpedHeader{h.Key, h.Value})
	}
	return d
}
