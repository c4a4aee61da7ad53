package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// Names in a log directory of Apache Kafka, beside those that are ours too.
const (
	kafkaLock       = ".lock" // as ours, and locked in another way
	kafkaMeta       = "meta.properties"
	kafkaCleanFile  = ".kafka_cleanshutdown"
	kafkaStartsFile = "log-start-offset-checkpoint"
	// maxKafkaStarts bounds the file of log starts in bytes: half a million partitions with long names.
	maxKafkaStarts = 128 << 20
)

// Errors of a directory that is to be imported.
var (
	ErrNotKafka     = errors.New("no log directory of Apache Kafka")
	ErrKafkaRunning = errors.New("in use by a running Kafka")
)

// KafkaDir is one of the log.dirs of a broker of Apache Kafka. While it is open that broker does not start.
type KafkaDir struct {
	Path       string
	Clean      bool // the broker was stopped, not killed
	Partitions []KafkaPartition
	Passed     []string // directories that belong to no topic (any more): deleted, stray, or moving between disks

	lock io.Closer
}

// KafkaPartition is a partition in it.
type KafkaPartition struct {
	Topic     string
	Partition int32
	ID        kproto.TopicID
	Path      string

	fs    vfs.FS
	start int64 // recorded log start; segments may begin above it
	clean bool
}

// OpenKafka finds the partitions in a directory and keeps Kafka from starting on it. It writes nothing. Errors: ErrNotKafka, ErrKafkaRunning, or an error of the disk.
func OpenKafka(fs vfs.FS, path string) (*KafkaDir, error) {
	if err := checkKafka(fs, path); err != nil {
		return nil, err
	}
	lock, err := vfs.LockJava(fs, filepath.Join(path, kafkaLock))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s is %w: stop it first", path, ErrKafkaRunning)
	}
	if err != nil {
		return nil, err
	}
	d := &KafkaDir{Path: path, lock: lock}
	if err := d.find(fs); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func checkKafka(fs vfs.FS, path string) error {
	meta, err := vfs.ReadFile(fs, filepath.Join(path, kafkaMeta), maxMetadataFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: %w: it has no %s", path, ErrNotKafka, kafkaMeta)
	case err != nil:
		return err
	case !strings.Contains(string(meta), "cluster.id="):
		return fmt.Errorf("%s: %w: its %s names no cluster", path, ErrNotKafka, kafkaMeta)
	}
	ours, err := vfs.Exists(fs, filepath.Join(path, durableFile))
	if err == nil && ours {
		err = fmt.Errorf("%s: %w: it is a data directory of sluice", path, ErrNotKafka)
	}
	return err
}

func (d *KafkaDir) find(fs vfs.FS) error {
	var err error
	if d.Clean, err = vfs.Exists(fs, filepath.Join(d.Path, kafkaCleanFile)); err != nil {
		return err
	}
	starts, err := readKafkaStarts(fs, filepath.Join(d.Path, kafkaStartsFile))
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(d.Path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		topic, n, ok := parsePartitionDir(e.Name())
		switch {
		case !e.IsDir():
		case !ok:
			d.Passed = append(d.Passed, e.Name())
		default:
			p := KafkaPartition{Topic: topic, Partition: n, Path: filepath.Join(d.Path, e.Name()), fs: fs, start: starts[e.Name()], clean: d.Clean}
			p.ID, _ = readMetadata(fs, p.Path) // zero: whoever wants the partition complains
			d.Partitions = append(d.Partitions, p)
		}
	}
	return nil
}

// Close lets Kafka start again.
func (d *KafkaDir) Close() error { return d.lock.Close() }

// readKafkaStarts reads the log starts by directory name: a version, a count, and "topic partition offset" lines. Those who are not in it
// start with their first segment.
func readKafkaStarts(fs vfs.FS, name string) (map[string]int64, error) {
	data, err := vfs.ReadFile(fs, name, maxKafkaStarts)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	starts := map[string]int64{}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, fmt.Errorf("%s is malformed", name)
	}
	for _, line := range lines[2:] {
		var topic string
		var partition int32
		var start int64
		if _, err := fmt.Sscanf(line, "%s %d %d", &topic, &partition, &start); err != nil || start < 0 {
			return nil, fmt.Errorf("%s is malformed at %q", name, line)
		}
		starts[partitionDir(topic, partition)] = start
	}
	return starts, nil
}
