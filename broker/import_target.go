package broker

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sluice/internal/machine"
	"sluice/log"
)

// openTarget opens the data directory for a run in which nothing is served, and nothing deleted or compacted: the settings of the broker
// that will run on it are not known. For a dry run its catalog is read, and nothing written.
func (m *importer) openTarget() error {
	b, err := newBroker(Options{DataDir: m.DataDir, FS: m.FS, Logger: m.Logger, Static: m.static()})
	if err != nil {
		return err
	}
	m.broker = b
	meta, err := readMeta(m.FS, m.DataDir)
	if err == nil {
		err = meta.check()
	}
	if err != nil {
		return err
	}
	if m.DryRun {
		return m.readTarget()
	}
	if b.dir, err = log.Open(m.DataDir, log.Options{FS: m.FS, Logger: b.logger}); err != nil {
		return err
	}
	b.topics = newTopics(b.dir, b.dispatch)
	if err := b.openCatalog(); err != nil {
		return err
	}
	if err := b.begin(meta); err != nil {
		return err
	}
	return b.settleImports()
}

// static has the groups' topic, if it is to be made, as many partitions as Kafka's.
func (m *importer) static() map[string]string {
	n := 0
	for _, d := range m.dirs {
		for _, p := range d.Partitions {
			if p.Topic == offsetsTopic {
				n = max(n, int(p.Partition)+1)
			}
		}
	}
	if n == 0 {
		return nil
	}
	return map[string]string{"offsets.topic.num.partitions": strconv.Itoa(n)}
}

// readTarget replays the catalog of the data directory, if there is one, without opening it.
func (m *importer) readTarget() error {
	b := m.broker
	b.topics = newTopics(nil, b.dispatch)
	unlock, err := log.LockUnused(m.FS, m.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	c := b.newCatalog()
	err = log.Dump(m.FS, filepath.Join(m.DataDir, catalogTopic+"-0"), log.Dumper{Records: true, Batch: func(x log.DumpedBatch) error {
		for _, r := range x.Records {
			if err := c.Apply(machine.Record{Key: r.Key, Value: r.Value}); err != nil {
				return err
			}
		}
		return nil
	}})
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, log.ErrNoLog) {
		return nil
	}
	b.follow(c.Loaded(time.Now()).Orders)
	return err
}
