package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/compat/harness"
)

func run(ctx context.Context, o options) (bool, error) {
	dir := o.keep
	if dir == "" {
		temp, err := os.MkdirTemp("", "sluice-kafka-import-")
		if err != nil {
			return false, err
		}
		defer os.RemoveAll(temp)
		dir = temp
	}
	k, err := newKafka(ctx, dir)
	if err != nil {
		return false, fmt.Errorf("format Kafka's data directory: %w", err)
	}
	t := &tester{binary: o.binary, dir: dir, source: k.DataDir, ok: true}
	if err := t.fill(ctx, k); err != nil {
		return false, err
	}
	t.checks(ctx)
	return t.ok, nil
}

// tester has what clients saw of Kafka before it stopped, and prints results.
type tester struct {
	binary, dir string
	source      string // Kafka's log directory
	ok          bool

	all       view
	committed view // by a reader of what is committed
}

// check prints the result of a check.
func (t *tester) check(name string, err error) {
	result := harness.Pass
	if err != nil {
		result, t.ok = harness.Fail, false
		fmt.Fprintf(os.Stderr, "kafka-import %s: %v\n", name, err)
	}
	fmt.Printf("%s,%s\n", name, result)
}

// fill runs Kafka twice, so that there are two leader epochs at least, and stops it.
func (t *tester) fill(ctx context.Context, k *kafka) error {
	w := &writer{address: k.Address, begin: time.UnixMilli(time.Now().Add(-2 * time.Hour).UnixMilli())}
	for i := range 2 {
		if err := k.start(ctx); err != nil {
			return err
		}
		var err error
		if i == 0 {
			err = w.create(ctx)
		}
		if err == nil {
			err = w.round(ctx)
		}
		if i == 1 && err == nil {
			err = t.look(ctx, w)
		}
		if err = errors.Join(err, k.stop()); err != nil {
			return fmt.Errorf("run %d of Kafka: %w", i, err)
		}
	}
	return nil
}

// look finishes what is to be imported, and looks at all there is.
func (t *tester) look(ctx context.Context, w *writer) (err error) {
	if err := w.finish(ctx); err != nil {
		return err
	}
	names := slices.Collect(maps.Keys(topicConfigs))
	if t.all, err = read(ctx, w.address, names, kgo.ReadUncommitted(), nil); err != nil {
		return err
	}
	if t.committed, err = read(ctx, w.address, names, kgo.ReadCommitted(), nil); err != nil {
		return err
	}
	t.check("Kafka runs", t.refusesRunning())
	return nil
}
