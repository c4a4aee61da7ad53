package main

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const printed = `Dumping /d/t-0/00000000000000000005.log
Log starting offset: 5
baseOffset: 5 lastOffset: 6 count: 2 position: 0 magic: 2 compresscodec: none crc: 1 isvalid: true
| offset: 5 CreateTime: 17 keySize: -1 valueSize: 3 sequence: 0 headerKeys: [a,b] payload: one
| offset: 6 CreateTime: 18 keySize: 1 valueSize: -1 sequence: 1 headerKeys: [] key: k
Dumping /d/t-0/00000000000000000005.index
offset: 6 position: 0
/d/t-0/00000000000000000005.timeindex passed sanity check.
`
	const verdict = `SLF4J: no logger
Non-consecutive offsets in /d/t-0/00000000000000000005.log
  -1 is followed by 5
  6 is followed by 8
`
	d := &dump{partitions: map[string]*dumped{}}
	for _, text := range []string{printed, verdict} {
		if err := d.parse(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	p := d.of("t-0")
	want := []record{{offset: 5, timestamp: 17, keySize: -1, valueSize: 3, headers: "a,b", value: "one"}, {offset: 6, timestamp: 18, keySize: 1, valueSize: -1, key: "k"}}
	if len(p.records) != 2 || p.records[0] != want[0] || p.records[1] != want[1] {
		t.Errorf("records %+v", p.records)
	}
	if s := p.segments["00000000000000000005"]; len(p.segments) != 1 || s == nil || *s != (segment{1, 1, true}) {
		t.Errorf("segments %+v", p.segments)
	}
	if p.gaps != 1 || d.sane != 1 || len(p.complaints) != 0 {
		t.Errorf("%+v, %d sane", p, d.sane)
	}
}

func TestParseComplaints(t *testing.T) {
	for _, text := range []string{
		"Dumping /d/t-0/0.log\nbaseOffset: 5 lastOffset: 6 crc: 1 isvalid: false\n",
		"Mismatches in :/d/t-0/0.index\n  Index offset: 1, log offset: 2\n",
		"Dumping /d/t-0/0.log\nFound 7 invalid bytes at the end of 0.log\n",
	} {
		d := &dump{partitions: map[string]*dumped{}}
		if err := d.parse(strings.NewReader(text)); err != nil || len(d.of("t-0").complaints) == 0 {
			t.Errorf("%q: %v, %v", text, d.of("t-0").complaints, err)
		}
	}
}
