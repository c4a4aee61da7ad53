package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// jars are Apache Kafka's command line tools.
const jars = "kafka-configs/lib/*"

// dump is what DumpLogSegments printed.
type dump struct {
	partitions map[string]*dumped // by directory
	sane       int                // index files that passed the sanity check
}

// dumped is a partition.
type dumped struct {
	records    []record
	segments   map[string]*segment // by base offset, as in the names of files
	complaints []string            // what is no part of a sound log
	gaps       int                 // pairs of offsets that are not consecutive, in a segment
}

// segment is what was counted in its files.
type segment struct {
	batches int
	entries int  // in offset and time indexes
	indexed bool // there are index files
}

// record is a record as the tool prints it.
type record struct {
	offset, timestamp  int64
	keySize, valueSize int // -1: null
	headers            string
	key, value         string
}

func (d *dump) of(partition string) *dumped {
	p := d.partitions[partition]
	if p == nil {
		p = &dumped{segments: map[string]*segment{}}
		d.partitions[partition] = p
	}
	return p
}

// at is the segment that a file belongs to.
func (d *dumped) at(file string) *segment {
	base, kind, _ := strings.Cut(filepath.Base(file), ".")
	s := d.segments[base]
	if s == nil {
		s = &segment{}
		d.segments[base] = s
	}
	s.indexed = s.indexed || kind != "log"
	return s
}

// dumpLogSegments runs the tool over files, all in one process of Java.
func dumpLogSegments(ctx context.Context, files []string, options ...string) (*dump, error) {
	args := []string{"-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", jars, "org.apache.kafka.tools.DumpLogSegments", "--files", strings.Join(files, ",")}
	command := exec.CommandContext(ctx, "java", append(args, options...)...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("DumpLogSegments %v: %w\n%s", options, err, errs.String())
	}
	d := &dump{partitions: map[string]*dumped{}}
	return d, errors.Join(d.parse(&out), d.parse(&errs)) // the tool gives its verdict on standard error
}

var recordLine = regexp.MustCompile(`^\| offset: (\d+) (?:CreateTime|LogAppendTime): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) .*headerKeys: \[(.*?)\](?: key: (.*?))?(?: payload: (.*))?$`)

// Lines that are of no interest in themselves, and those that tell of a gap. At the front of a segment the tool sees one too. A segment of one
// batch has an empty offset index, in Kafka as well.
var (
	entryLine   = regexp.MustCompile(`^(offset: \d+ position: \d+|timestamp: -?\d+ offset: \d+)$`)
	quietLine   = regexp.MustCompile(`^(Log starting offset: \d+|/.*\.index is empty\.|SLF4J: .*|  -1 is followed by \d+|)$`)
	gapLine     = regexp.MustCompile(`^  \d+ is followed by \d+$`)
	fileLine    = regexp.MustCompile(`^(Dumping |Non-consecutive offsets in )(/.*)$`)
	verdictLine = regexp.MustCompile(` in :?(/.*)$`)
)

// parse sorts the lines. What it does not know is a complaint about the file that was named last.
func (d *dump) parse(r io.Reader) error {
	p, s := d.of(""), &segment{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := fileLine.FindStringSubmatch(line); m != nil {
			p = d.of(partitionOf(m[2]))
			s = p.at(m[2])
			continue
		}
		switch m := recordLine.FindStringSubmatch(line); {
		case m != nil:
			p.records = append(p.records, newRecord(m))
		case strings.HasSuffix(line, " passed sanity check."):
			d.sane++
		case strings.HasPrefix(line, "baseOffset: ") && strings.HasSuffix(line, " isvalid: true"):
			s.batches++
		case entryLine.MatchString(line):
			s.entries++
		case gapLine.MatchString(line):
			p.gaps++
		case !quietLine.MatchString(line):
			if m := verdictLine.FindStringSubmatch(line); m != nil {
				p = d.of(partitionOf(m[1]))
			}
			p.complaints = append(p.complaints, line)
		}
	}
	return lines.Err()
}

// partitionOf is the directory that a file is in.
func partitionOf(file string) string { return filepath.Base(filepath.Dir(file)) }

// newRecord takes the groups of recordLine, which are numbers where they must be.
func newRecord(m []string) record {
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(m[i], 10, 64)
		return n
	}
	return record{offset: number(1), timestamp: number(2), keySize: int(number(3)), valueSize: int(number(4)), headers: m[5], key: m[6], value: m[7]}
}

func (d *dump) saneAre(files int) error {
	for name, p := range d.partitions {
		if len(p.complaints) > 0 {
			return fmt.Errorf("%s: %w", name, p.complaint())
		}
	}
	if d.sane != files {
		return fmt.Errorf("%d of %d index files passed", d.sane, files)
	}
	return nil
}

func (d *dumped) complaint() error { return fmt.Errorf("the tool says %q", d.complaints) }
