package kraft

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// TestRead reads what a real broker wrote, which testdata of cmd/sluice has.
func TestRead(t *testing.T) {
	m, err := Read(vfs.Disk{}, "../../cmd/sluice/testdata/kafka")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{
		"plain":     {"retention.ms": "-1", "segment.ms": "100000"},
		"compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "20000", "delete.retention.ms": "86400000"},
		"trimmed":   {"segment.ms": "20000", "file.delete.delay.ms": "0"},
		"unused":    nil,
	}
	for name, configs := range want {
		if got := m.Topics[name]; got.Partitions != 1 || got.ID.IsZero() || !reflect.DeepEqual(got.Configs, configs) {
			t.Errorf("%s: %+v, want %v", name, got, configs)
		}
	}
	if n := m.Topics["__consumer_offsets"].Partitions; n != 5 {
		t.Errorf("%d partitions of __consumer_offsets", n)
	}
	if _, err := Read(vfs.Disk{}, t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the log: %v", err)
	}
}

// frame makes a record of version 0.
func frame(kind uint32, fields ...[]byte) []byte {
	b := kbin.AppendUvarint(kbin.AppendUvarint(kbin.AppendUvarint(nil, frameVersion), kind), 0)
	for _, f := range fields {
		b = append(b, f...)
	}
	return kbin.AppendUvarint(b, 0) // no tags
}

func text(s string) []byte { return kbin.AppendCompactString(nil, s) }

var a, b = kproto.TopicID{1}, kproto.TopicID{2}

func topicRecord(name string, id kproto.TopicID) []byte { return frame(kindTopic, text(name), id[:]) }

func partitionRecord(n int32, id kproto.TopicID) []byte {
	return frame(kindPartition, kbin.AppendInt32(nil, n), id[:], []byte{1, 2, 3})
}

func configRecord(resource int8, name, key string, value *string) []byte {
	return frame(kindConfig, []byte{byte(resource)}, text(name), text(key), kbin.AppendCompactNullableString(nil, value))
}

// TestReplay: topics that go and come again, settings that go, transactions that are aborted.
func TestReplay(t *testing.T) {
	one, two := "1", "2"
	records := [][]byte{
		topicRecord("t", a), partitionRecord(0, a), partitionRecord(1, a),
		configRecord(resourceTopic, "t", "x", &one), configRecord(4, "t", "x", &two), configRecord(resourceTopic, "t", "y", &one), configRecord(resourceTopic, "t", "x", nil),
		frame(kindBegin), topicRecord("u", b), configRecord(resourceTopic, "t", "z", &one), frame(kindAbort),
		frame(99, []byte("of a kind that is not known")),
		frame(kindBegin), configRecord(resourceTopic, "t", "w", &two), frame(kindEnd),
	}
	r := play(t, records)
	if got, want := r.metadata().Topics, (map[string]Topic{"t": {a, 2, map[string]string{"y": "1", "w": "2"}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r = play(t, append(records, frame(kindRemoveTopic, a[:]), topicRecord("t", b), partitionRecord(0, b)))
	if got, want := r.metadata().Topics, (map[string]Topic{"t": {b, 1, nil}}); !reflect.DeepEqual(got, want) {
		t.Errorf("deleted and made again: got %v, want %v", got, want)
	}
}

func play(t *testing.T, records [][]byte) *replay {
	t.Helper()
	r := &replay{configs: map[string]map[string]string{}, topics: map[kproto.TopicID]*topic{}}
	for _, b := range records {
		if err := r.record(b); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestBadRecords: nothing that is cut short is believed.
func TestBadRecords(t *testing.T) {
	one := "1"
	for _, b := range [][]byte{topicRecord("t", a), partitionRecord(0, a), configRecord(resourceTopic, "t", "x", &one), frame(kindRemoveTopic, a[:])} {
		for n := range len(b) - 4 { // without what follows the fields that are read
			r := &replay{configs: map[string]map[string]string{}, topics: map[kproto.TopicID]*topic{}}
			if err := r.record(b[:n]); err == nil {
				t.Errorf("%x was taken", b[:n])
			}
		}
	}
	if err := (&replay{}).record([]byte{2, kindTopic, 0}); err == nil {
		t.Error("another version of the frame was taken")
	}
}

// TestSnapshot: what a snapshot says stands for the records before its offset, and the log is read from there on.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, Directory), os.DirFS("../../cmd/sluice/testdata/kafka/"+Directory)); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, Directory, "00000000000000000000.log")
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// The whole log as a snapshot at an offset beyond its end, and a log that begins there.
	if err := os.WriteFile(filepath.Join(dir, Directory, "00000000000000009999-0000000002.checkpoint"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Read(vfs.Disk{}, dir)
	if err != nil || m.Topics["plain"].Configs["retention.ms"] != "-1" {
		t.Errorf("%+v, %v", m, err)
	}
}
