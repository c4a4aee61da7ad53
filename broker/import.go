package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sluice/catalog"
	"sluice/internal/kraft"
	"sluice/internal/vfs"
	"sluice/kproto"
	"sluice/log"
)

// Lost is what becomes of the records of transactions that were aborted, or have not ended, as long as the broker does not tell consumers which they are.
type Lost string

const (
	LostRefuse Lost = "refuse" // a topic with such records is refused
	LostKeep   Lost = "keep"   // they are kept, and shown to everybody
	LostEmpty  Lost = "empty"  // they are left out; their offsets are a gap
)

// ImportOptions say what Import is to take, and where to.
type ImportOptions struct {
	DataDir string
	FS      vfs.FS
	Logger  *slog.Logger // nil: silent
	Sources []string     // log directories of a broker of Apache Kafka
	Topics  []string     // none: all
	Configs map[string]string
	Lost    Lost
	Offsets bool // take the committed offsets of the topics too
	DryRun  bool
}

// Import is what was imported, or would be.
type Import struct {
	Executed bool            `json:"executed"`
	Topics   []ImportedTopic `json:"topics"`
	Offsets  int             `json:"offsets"` // committed offsets
	Groups   int             `json:"groups"`  // that have committed them
	Passed   []string        `json:"passed"`  // directories in the sources that are no topic's, or of an internal topic
}

// ImportedTopic is one topic.
type ImportedTopic struct {
	Topic      string              `json:"topic"`
	ID         string              `json:"id"`
	Refused    string              `json:"refused,omitempty"` // why nothing of it is imported
	Configs    map[string]string   `json:"configs"`
	Dropped    map[string]string   `json:"droppedConfigs,omitempty"` // settings that mean nothing here, and why
	Partitions []ImportedPartition `json:"partitions"`

	surveys []*log.Survey
	id      kproto.TopicID
}

// ImportedPartition is one partition.
type ImportedPartition struct {
	Partition int32  `json:"partition"`
	Path      string `json:"path"`
	log.Survey
}

// Refused tells whether a topic was refused.
func (r *Import) Refused() bool {
	return slices.ContainsFunc(r.Topics, func(t ImportedTopic) bool { return t.Refused != "" })
}

// ImportKafka takes topics from the log directories of a stopped broker of Apache Kafka into a data directory that no broker runs on. A topic comes whole or not
// at all; one step of the catalog makes all of them, and until then nothing is to be seen of any. Errors are of the directories, and nothing was imported
// then: log.ErrNotKafka, log.ErrKafkaRunning, log.ErrInUse, or of the disk.
func ImportKafka(ctx context.Context, o ImportOptions) (*Import, error) {
	m := &importer{ImportOptions: o, out: &Import{Executed: !o.DryRun, Topics: []ImportedTopic{}, Passed: []string{}}}
	defer m.close()
	if err := m.openSources(); err != nil {
		return nil, err
	}
	if err := m.openTarget(); err != nil {
		return nil, err
	}
	if err := m.survey(); err != nil {
		return nil, err
	}
	if o.DryRun {
		return m.out, m.countOffsets()
	}
	if err := m.execute(ctx); err != nil {
		return nil, err
	}
	b := m.broker
	m.broker = nil
	return m.out, b.Close(ctx)
}

// importer is an import under way.
type importer struct {
	ImportOptions
	out     *Import
	dirs    []*log.KafkaDir
	meta    map[string]kraft.Topic // what Kafka's metadata says, by topic
	offsets []log.KafkaPartition   // of __consumer_offsets
	broker  *Broker                // the target; without a data directory in a dry run
}

func (m *importer) close() {
	for _, d := range m.dirs {
		_ = d.Close() // nothing was written there
	}
	if m.broker != nil && m.broker.dir != nil {
		_ = m.broker.Close(context.Background()) // there is an error already
	}
}

func (m *importer) openSources() error {
	if d, err := log.OpenKafka(m.FS, m.DataDir); err == nil || errors.Is(err, log.ErrKafkaRunning) {
		if err == nil {
			_ = d.Close() // nothing was written there
		}
		return fmt.Errorf("%s is a log directory of Kafka, and no place to import into: choose another --data-dir", m.DataDir)
	}
	m.meta = map[string]kraft.Topic{}
	for _, path := range m.Sources {
		d, err := log.OpenKafka(m.FS, filepath.Clean(path))
		if err != nil {
			return err
		}
		m.dirs = append(m.dirs, d)
		m.out.Passed = append(m.out.Passed, d.Passed...)
		meta, err := kraft.Read(m.FS, d.Path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read Kafka's metadata: %w", err)
		}
		maps.Copy(m.meta, meta.Topics)
	}
	return nil
}

// accepted are the topics to be imported.
func (m *importer) accepted() []*ImportedTopic {
	var all []*ImportedTopic
	for i := range m.out.Topics {
		if m.out.Topics[i].Refused == "" {
			all = append(all, &m.out.Topics[i])
		}
	}
	return all
}

// execute writes everything beside its place, then has the catalog make the topics, and then puts it into its place.
func (m *importer) execute(ctx context.Context) error {
	topics := m.accepted()
	if len(topics) == 0 {
		return nil
	}
	err := m.stage(topics)
	if err == nil {
		err = m.importOffsets(ctx)
	}
	if err == nil {
		err = m.record(ctx, topics)
	}
	if err != nil {
		m.unstage(topics)
		return err
	}
	return m.broker.settleImports()
}

func (m *importer) stage(topics []*ImportedTopic) error {
	for _, t := range topics {
		for _, s := range t.surveys {
			if err := m.broker.dir.Stage(s, m.Lost == LostEmpty); err != nil {
				return fmt.Errorf("import %s: %w", t.Topic, err)
			}
		}
	}
	return nil
}

// unstage gives the room back. What it cannot remove the next start does.
func (m *importer) unstage(topics []*ImportedTopic) {
	for _, t := range topics {
		for _, p := range t.Partitions {
			if m.broker.topics.byID(t.id) == nil {
				_ = m.broker.dir.Unstage(t.id, p.Partition)
			}
		}
	}
}

// record is the moment at which the topics exist.
func (m *importer) record(ctx context.Context, topics []*ImportedTopic) error {
	ev := catalog.ImportTopics{Epoch: -1}
	for _, t := range topics {
		ev.Topics = append(ev.Topics, catalog.NewTopic{Name: t.Topic, ID: t.id, Partitions: int32(len(t.Partitions)), Config: t.Configs})
		for _, s := range t.surveys {
			ev.Epoch, ev.NextProducerID = max(ev.Epoch, s.Epoch), max(ev.NextProducerID, s.ProducerID+1)
		}
	}
	v, err := m.broker.catalog.Ask(ctx, ev)
	if err != nil {
		return fmt.Errorf("record the topics: %w", err)
	}
	for _, r := range v.([]catalog.TopicResult) {
		if r.Err != nil {
			return fmt.Errorf("record topic %s: %w", r.Topic.Name, r.Err)
		}
	}
	return nil
}

// settleImports ends imports that are recorded, and removes what is left of those that are not.
func (b *Broker) settleImports() error {
	return b.dir.SettleImports(func(id kproto.TopicID) string {
		if t := b.topics.byID(id); t != nil {
			return t.name
		}
		return ""
	})
}
