package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sluice/broker"
	"sluice/internal/vfs"
)

type logImportCmd struct {
	outputFlag `embed:""`

	DataDir   string            `help:"Data directory to import into; made if missing (default ${default}). No broker may be running on it." default:"./sluice-data" env:"SLUICE_DATA_DIR" placeholder:"DIR"`
	Topic     []string          `short:"t" help:"Topic to import; may be repeated (default: all)." placeholder:"NAME" sep:"none"`
	Config    map[string]string `help:"Setting of every topic imported, before those that it had; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
	Lost      string            `help:"What to do with records of transactions that were aborted or have not ended: refuse their topic, leave them out (empty), or keep them, to be seen by all consumers." enum:"refuse,empty,keep" default:"refuse" placeholder:"refuse|empty|keep"`
	NoOffsets bool              `help:"Leave the offsets that consumer groups have committed."`
	DryRun    bool              `help:"Read and check everything, and write nothing."`
	Source    []string          `arg:"" help:"Log directory of a stopped Kafka broker: all of its log.dirs."`
}

// Run prints what was imported, and fails if a topic was refused.
func (c *logImportCmd) Run(ctx context.Context, s *streams) error {
	logger, err := newLogger(s.err, "warn", "text")
	if err != nil {
		return err
	}
	done, err := broker.ImportKafka(ctx, broker.ImportOptions{
		DataDir: c.DataDir, FS: vfs.Disk{}, Logger: logger, Sources: c.Source, Topics: c.Topic, Configs: c.Config,
		Lost: broker.Lost(c.Lost), Offsets: !c.NoOffsets, DryRun: c.DryRun,
	})
	if err != nil {
		return unchecked{fmt.Errorf("nothing was imported: %w", err)}
	}
	if err := c.print(s.out, done, func(w io.Writer) { importTable(w, done) }); err != nil {
		return err
	}
	if done.Refused() {
		return errors.New("topics were refused, and nothing of them was imported")
	}
	return nil
}

func importTable(w io.Writer, r *broker.Import) {
	state := "imported"
	if !r.Executed {
		state = "can be imported"
	}
	row(w, "TOPIC", "PARTITIONS", "RECORDS", "SIZE", "STATE")
	for _, t := range r.Topics {
		if t.Refused != "" {
			row(w, t.Topic, "-", "-", "-", "refused")
			continue
		}
		records, bytes := int64(0), int64(0)
		for _, p := range t.Partitions {
			records, bytes = records+p.Records, bytes+p.Bytes
		}
		row(w, t.Topic, len(t.Partitions), records, byteCount(bytes), state)
	}
	fmt.Fprintf(w, "%d committed offsets of %d groups\n", r.Offsets, r.Groups)
	for _, t := range r.Topics {
		importNotes(w, t)
	}
	if names := byBrokersRetention(r); len(names) > 0 {
		fmt.Fprintf(w, "deleted by the broker's log.retention settings, 7 days unless set: %s. Start it with those that Kafka had, or set retention.ms first\n", strings.Join(names, ", "))
	}
	if len(r.Passed) > 0 {
		fmt.Fprintf(w, "not looked at: %s\n", strings.Join(r.Passed, ", "))
	}
}

// byBrokersRetention are the topics whose records go by age as the broker says, since they say nothing themselves.
func byBrokersRetention(r *broker.Import) (names []string) {
	for _, t := range r.Topics {
		if _, own := t.Configs["retention.ms"]; !own && t.Refused == "" && t.Configs["cleanup.policy"] != "compact" {
			names = append(names, t.Topic)
		}
	}
	return names
}

// importNotes says why a topic was refused, and which settings it has from now on.
func importNotes(w io.Writer, t broker.ImportedTopic) {
	if t.Refused != "" {
		fmt.Fprintf(w, "REFUSED: %s: %s\n", t.Topic, t.Refused)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(t.Configs)) {
		fmt.Fprintf(w, "%s: %s=%s\n", t.Topic, key, t.Configs[key])
	}
	for _, key := range slices.Sorted(maps.Keys(t.Dropped)) {
		fmt.Fprintf(w, "%s: without %s: %s\n", t.Topic, key, t.Dropped[key])
	}
}
