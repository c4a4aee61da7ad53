// Package kraft reads what the metadata log of Apache Kafka (KRaft, KIP-500) says of topics: their ids, how many partitions they have, and
// their settings. Every broker has a copy of that log, __cluster_metadata-0, in its metadata.log.dir.
//
// A record's value is a frame: version 1, the kind of record and its version, each an unsigned varint, and the record in Kafka's flexible
// encoding. Kinds and fields that are not of use here are passed over. The log's front is cut off now and then: the newest snapshot
// ("<offset>-<epoch>.checkpoint", batches of the same records) stands for what lies before its offset.
package kraft

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"

	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// Directory is the log's name in a log directory.
const Directory = "__cluster_metadata-0"

// Kinds of records.
const (
	kindTopic       = 2
	kindPartition   = 3
	kindConfig      = 4
	kindRemoveTopic = 9
	kindBegin       = 23 // a transaction (KIP-868)
	kindEnd         = 24
	kindAbort       = 25
)

const (
	frameVersion    = 1
	resourceTopic   = 2
	snapshotSuffix  = ".checkpoint"
	maxRecordFields = 1 << 20 // bytes of one record that are looked at: names and values of settings are far shorter
)

// Topic is a topic as the log has it.
type Topic struct {
	ID         kproto.TopicID
	Partitions int32
	Configs    map[string]string
}

// Metadata is what the log says, by name of topic.
type Metadata struct{ Topics map[string]Topic }

// Read reads the log in a log directory of Kafka. It writes nothing. Errors: os.ErrNotExist, or one that says what cannot be read.
func Read(fs vfs.FS, logDir string) (*Metadata, error) {
	dir := filepath.Join(logDir, Directory)
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	snapshot, from := "", int64(0)
	for _, e := range entries { // ascending
		var offset, epoch int64
		if strings.HasSuffix(e.Name(), snapshotSuffix) {
			if _, err := fmt.Sscanf(e.Name(), "%020d-%010d", &offset, &epoch); err == nil {
				snapshot, from = filepath.Join(dir, e.Name()), offset
			}
		}
	}
	r := &replay{configs: map[string]map[string]string{}, topics: map[kproto.TopicID]*topic{}}
	if snapshot != "" {
		if err := r.file(fs, snapshot, 0); err != nil {
			return nil, err
		}
	}
	if err := r.file(fs, dir, from); err != nil && !errors.Is(err, log.ErrNoLog) {
		return nil, err
	}
	return r.metadata(), nil
}

// replay is the state that the records make.
type replay struct {
	topics  map[kproto.TopicID]*topic
	configs map[string]map[string]string // by topic; they may come before it

	pending [][]byte // of a transaction under way
	open    bool
}

type topic struct {
	name       string
	partitions int32
}

func (r *replay) file(fs vfs.FS, path string, from int64) error {
	err := log.Dump(fs, path, log.Dumper{Records: true, Batch: func(b log.DumpedBatch) error {
		if !b.Valid || b.RecordsProblem != "" {
			return fmt.Errorf("%s at position %d: %w %s", b.File, b.Position, log.ErrDamaged, b.RecordsProblem)
		}
		for _, x := range b.Records {
			if b.Control || x.Offset < from {
				continue
			}
			if err := r.record(x.Value); err != nil {
				return fmt.Errorf("%s at offset %d: %w", b.File, x.Offset, err)
			}
		}
		return nil
	}})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// record takes one in, or keeps it until its transaction ends.
func (r *replay) record(value []byte) error {
	b := kbin.Reader{Src: value}
	version, kind, _ := b.Uvarint(), b.Uvarint(), b.Uvarint()
	switch {
	case !b.Ok():
		return errors.New("a metadata record is cut short")
	case version != frameVersion:
		return fmt.Errorf("metadata frames of version %d are not known", version)
	case kind == kindBegin:
		r.open = true
	case kind == kindAbort:
		r.open, r.pending = false, nil
	case kind == kindEnd:
		return r.commit()
	case r.open:
		r.pending = append(r.pending, value)
	default:
		return r.apply(kind, &b)
	}
	return nil
}

func (r *replay) commit() error {
	values := r.pending
	r.open, r.pending = false, nil
	for _, v := range values {
		if err := r.record(v); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) apply(kind uint32, b *kbin.Reader) error {
	if len(b.Src) > maxRecordFields {
		return fmt.Errorf("a metadata record has %d bytes", len(b.Src))
	}
	switch kind {
	case kindTopic:
		name := b.CompactString()
		r.topics[kproto.TopicID(b.Uuid())] = &topic{name: name}
	case kindPartition:
		n := b.Int32()
		if t := r.topics[kproto.TopicID(b.Uuid())]; t != nil {
			t.partitions = max(t.partitions, n+1)
		}
	case kindRemoveTopic:
		id := kproto.TopicID(b.Uuid())
		if t := r.topics[id]; t != nil {
			delete(r.configs, t.name)
		}
		delete(r.topics, id)
	case kindConfig:
		r.config(b.Int8(), b.CompactString(), b.CompactString(), b.CompactNullableString())
	}
	if !b.Ok() {
		return fmt.Errorf("a metadata record of kind %d is cut short", kind)
	}
	return nil
}

// config sets a setting, or unsets it: its value is null then.
func (r *replay) config(resource int8, name, key string, value *string) {
	if resource != resourceTopic {
		return
	}
	if value == nil {
		delete(r.configs[name], key)
		return
	}
	if r.configs[name] == nil {
		r.configs[name] = map[string]string{}
	}
	r.configs[name][key] = *value
}

func (r *replay) metadata() *Metadata {
	m := &Metadata{Topics: map[string]Topic{}}
	for id, t := range r.topics {
		m.Topics[t.name] = Topic{ID: id, Partitions: t.partitions, Configs: r.configs[t.name]}
	}
	return m
}
