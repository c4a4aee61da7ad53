package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"sluice/internal/vfs"
	"sluice/log"
)

// exitUnchecked is what the commands about files end with when they could not look at them.
const exitUnchecked = 2

type logCmd struct {
	Verify logVerifyCmd `cmd:"" help:"Check a data directory, or the directory of one partition. Writes nothing. Exit code 0: sound, 1: damage, 2: could not check."`
	Repair logRepairCmd `cmd:"" help:"Cut damage out, so that consumers step over it. Writes nothing without --execute. Exit code 0: nothing is damaged any more, 1: damage, 2: could not."`
	Dump   logDumpCmd   `cmd:"" help:"Print the batches of a segment or a partition, or the entries of an index. The files may be Apache Kafka's. Exit code 0: all is printed, 1: some of it is damaged, 2: could not read."`
	Import logImportCmd `cmd:"" help:"Take topics over from the log directories of a stopped broker of Apache Kafka. Exit code 0: all imported, 1: topics were refused, 2: could not."`
}

type logVerifyCmd struct {
	outputFlag `embed:""`

	Dir string `arg:"" help:"The data directory, or a partition's directory in it. No broker may be running on it."`
}

// unchecked is why files could not be looked at.
type unchecked struct{ error }

func (unchecked) ExitCode() int { return exitUnchecked }

func (e unchecked) Unwrap() error { return e.error }

// Run prints what was found and fails if it is damage.
func (c *logVerifyCmd) Run(s *streams) error {
	report, err := log.Verify(vfs.Disk{}, filepath.Clean(c.Dir))
	if err != nil {
		return unchecked{fmt.Errorf("%s could not be checked: %w", c.Dir, err)}
	}
	if err := c.print(s.out, report, func(w io.Writer) { verifyTable(w, report) }); err != nil {
		return err
	}
	if report.Damaged() {
		return errors.New("acknowledged data is lost or wrong")
	}
	return nil
}

func verifyTable(w io.Writer, r *log.Report) {
	row(w, "PARTITION", "SEGMENTS", "BATCHES", "SIZE", "START", "END", "STATE")
	for _, p := range r.Partitions {
		row(w, filepath.Base(p.Directory), p.Segments, p.Batches, byteCount(p.Bytes), p.Start, p.End, state(p.Findings))
	}
	for _, f := range r.Findings {
		fmt.Fprintln(w, finding(f))
	}
	for _, p := range r.Partitions {
		for _, f := range p.Findings {
			fmt.Fprintln(w, finding(f))
		}
	}
}

func state(findings []log.Finding) string {
	s := "sound"
	for _, f := range findings {
		if f.Damage {
			return "damaged"
		}
		s = "sound, see below"
	}
	return s
}

// finding is one line: what it is worth, where, and what.
func finding(f log.Finding) string {
	kind, where := "note", f.File
	if f.Damage {
		kind = "DAMAGE"
	}
	if f.Position >= 0 {
		where += fmt.Sprintf(" at byte %d", f.Position)
	}
	switch {
	case f.End >= 0:
		where += fmt.Sprintf(", %d bytes, offsets %d to %d", f.Bytes, f.Offset, f.End-1)
	case f.Offset >= 0:
		where += fmt.Sprintf(", offset %d", f.Offset)
	}
	return kind + ": " + where + ": " + f.Message
}

type logDumpCmd struct {
	Output  string `short:"o" enum:"text,json" default:"text" placeholder:"text|json" help:"How to print: text, or one JSON object a line."`
	Records bool   `short:"r" help:"Print the records of each batch too."`
	Path    string `arg:"" help:"A .log, .index or .timeindex file, or a partition's directory. It may be in use."`
}

// Run prints entry by entry, so that a segment of any size can be dumped.
func (c *logDumpCmd) Run(s *streams) error {
	emit := emitText
	if c.Output == "json" {
		emit = emitJSON
	}
	damaged := false
	err := log.Dump(vfs.Disk{}, filepath.Clean(c.Path), log.Dumper{
		Records: c.Records,
		Batch: func(b log.DumpedBatch) error {
			damaged = damaged || !b.Valid || b.RecordsProblem != ""
			return emit(s.out, b)
		},
		Offset: func(e log.DumpedOffset) error { return emit(s.out, e) },
		Time:   func(e log.DumpedTime) error { return emit(s.out, e) },
	})
	switch {
	case errors.Is(err, log.ErrDamaged):
		return err
	case err != nil:
		return unchecked{fmt.Errorf("%s could not be read: %w", c.Path, err)}
	case damaged:
		return errors.New("batches are damaged")
	}
	return nil
}

func emitJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func emitText(w io.Writer, v any) error {
	var err error
	switch e := v.(type) {
	case log.DumpedBatch:
		err = emitBatch(w, e)
	case log.DumpedOffset:
		_, err = fmt.Fprintf(w, "offset %d position %d\n", e.Offset, e.Position)
	case log.DumpedTime:
		_, err = fmt.Fprintf(w, "timestamp %d offset %d\n", e.Timestamp, e.Offset)
	}
	return err
}

func emitBatch(w io.Writer, b log.DumpedBatch) error {
	_, err := fmt.Fprintf(w, "%s position %d size %d offsets %d-%d count %d epoch %d time %d-%d codec %s producer %d/%d sequence %d crc %08x%s\n",
		filepath.Base(b.File), b.Position, b.Size, b.BaseOffset, b.LastOffset, b.Count, b.LeaderEpoch, b.BaseTimestamp, b.MaxTimestamp,
		b.Codec, b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.CRC, batchMarks(b))
	for _, r := range b.Records {
		if err == nil {
			_, err = fmt.Fprintf(w, "  offset %d time %d key %s value %s\n", r.Offset, r.Timestamp, quoted(r.Key), quoted(r.Value))
		}
		for _, h := range r.Headers {
			if err == nil {
				_, err = fmt.Fprintf(w, "    header %q %s\n", h.Key, quoted(h.Value))
			}
		}
	}
	return err
}

func batchMarks(b log.DumpedBatch) string {
	marks := ""
	for _, m := range []struct {
		set  bool
		text string
	}{{b.LogAppendTime, "log append time"}, {b.Transactional, "transactional"}, {b.Control, "control"}, {b.DeleteHorizon != nil, "delete horizon"}, {!b.Valid, "DAMAGED"}, {b.RecordsProblem != "", b.RecordsProblem}} {
		if m.set {
			marks += " [" + m.text + "]"
		}
	}
	return marks
}

func quoted(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}
