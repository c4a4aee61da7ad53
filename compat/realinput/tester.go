package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"sluice/compat/checks"
	franzgo "sluice/compat/franz-go"
	"sluice/compat/harness"
	kafkago "sluice/compat/kafka-go"
	"sluice/compat/sarama"
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// filePartitions is the number of partitions that the files spread over by their keys.
const filePartitions = 3

// tester makes runs against one broker.
type tester struct {
	options options
	in      *input
	broker  *harness.Broker
	admin   checks.Client
	sources map[string]source
	clients []checks.Client
}

func newTester(o options, in *input, broker *harness.Broker) (*tester, error) {
	t := &tester{options: o, in: in, broker: broker}
	return t, t.connect()
}

// connect makes new clients. After a kill they are needed for the libraries that do not try again when a connection of
// their pool turns out to be gone.
func (t *tester) connect() error {
	t.close()
	t.sources = map[string]source{"kcat": kcatSource{t.broker.Address}}
	for name, connect := range map[string]func(string) (checks.Client, error){
		"franz-go": franzgo.New, "sarama": sarama.New, "kafka-go": kafkago.New,
	} {
		client, err := connect(t.broker.Address)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.clients = append(t.clients, client)
		t.sources[name] = client
		if name == "franz-go" {
			t.admin = client
		}
	}
	return nil
}

func (t *tester) close() {
	for _, c := range t.clients {
		c.Close()
	}
	t.clients = nil
}

// readersOf are the clients that read what a writer wrote; the turn decides who reads from where.
func (t *tester) readersOf(w writer, turn int) (from [3]source) {
	for i := range from {
		from[i] = t.sources[w.readers[(i+turn)%len(w.readers)]]
	}
	return from
}

func (t *tester) createTopic(ctx context.Context, topic string, partitions int) error {
	return t.admin.CreateTopic(ctx, topic, partitions, map[string]string{"max.message.bytes": fmt.Sprint(largestRecord)})
}

// files writes one record a file and compares.
func (t *tester) files(ctx context.Context, w writer, codec string, turn int) error {
	topic := fmt.Sprintf("files-%s-%s", w.name, codec)
	if err := t.createTopic(ctx, topic, filePartitions); err != nil {
		return err
	}
	begin := time.Now()
	writing, err := w.files(ctx, t.broker.Address, topic, codec, t.in)
	if err != nil {
		return err
	}
	if err := wait(writing); err != nil {
		return err
	}
	wrote := time.Since(begin)
	if err := t.compare(ctx, w, topic, turn); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "realinput: %s: %d files, %d bytes: written in %v, read three times in %v, 0 differences\n",
		topic, len(t.in.files), t.in.bytes, wrote.Round(time.Millisecond), (time.Since(begin) - wrote).Round(time.Millisecond))
	return nil
}

// compare reads a topic of files and compares.
func (t *tester) compare(ctx context.Context, w writer, topic string, turn int) error {
	logs, err := replayAll(ctx, t.readersOf(w, turn), topic, filePartitions)
	if err != nil {
		return err
	}
	return compareFiles(t.in.files, logs)
}

// lines writes one record a line, each file to a partition of its own, and compares.
func (t *tester) lines(ctx context.Context, w writer, codec string, turn int) error {
	topic := fmt.Sprintf("lines-%s-%s", w.name, codec)
	if err := t.createTopic(ctx, topic, len(t.in.largest)); err != nil {
		return err
	}
	for p, f := range t.in.largest {
		if out, err := w.lines(ctx, t.broker.Address, topic, codec, p, t.in.path(f)).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", w.name, f.key, err, out)
		}
	}
	logs, err := replayAll(ctx, t.readersOf(w, turn), topic, len(t.in.largest))
	if err != nil {
		return err
	}
	for p, f := range t.in.largest {
		want, err := w.asLines(t.in, f)
		if err == nil && logs[p].joined != want {
			err = fmt.Errorf("%s came back with another SHA-256, in %d lines", f.key, len(logs[p].entries))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// acrossKills writes the files while the broker is killed, and compares as if nothing had happened.
func (t *tester) acrossKills(ctx context.Context, w writer) error {
	kills := 8
	if t.options.short {
		kills = 2
	}
	// A writer may be through before the first kill; then the run proves nothing and is made again.
	for try := range 5 {
		topic := fmt.Sprintf("killed-%s-%d", w.name, try)
		met, err := t.writeAndKill(ctx, w, topic, kills)
		if err != nil {
			return err
		}
		if err := t.connect(); err != nil {
			return err
		}
		if err := t.compare(ctx, w, topic, try); err != nil {
			return fmt.Errorf("after %d kills: %w", met, err)
		}
		if met > 0 {
			fmt.Fprintf(os.Stderr, "realinput: %s: %d kills while writing, 0 differences, lost, duplicated\n", topic, met)
			return nil
		}
	}
	return errors.New("the writer was always through before the first kill")
}

// writeAndKill starts a writer and kills the broker each time that another share of the records has come. It returns how
// many kills met the writing.
func (t *tester) writeAndKill(ctx context.Context, w writer, topic string, kills int) (met int, err error) {
	if err := t.createTopic(ctx, topic, filePartitions); err != nil {
		return 0, err
	}
	writing, err := w.files(ctx, t.broker.Address, topic, "lz4", t.in)
	if err != nil {
		return 0, err
	}
	finished := make(chan error, 1)
	go func() { finished <- wait(writing) }()
	for {
		select {
		case err := <-finished:
			return met, err
		case <-time.After(time.Millisecond):
		}
		written, err := t.count(ctx, topic)
		if err != nil {
			return met, errors.Join(err, writing.Process.Kill())
		}
		if met < kills && written > int64(len(t.in.files)*met/(kills+1)) && written < int64(len(t.in.files)) {
			if err := errors.Join(t.broker.Kill(), t.broker.Restart()); err != nil {
				return met, errors.Join(err, writing.Process.Kill())
			}
			met++
		}
	}
}

// count is the number of records in a topic of files.
func (t *tester) count(ctx context.Context, topic string) (total int64, err error) {
	for p := range int32(filePartitions) {
		end, err := t.admin.Offset(ctx, topic, p, checks.Latest)
		if err != nil {
			return 0, err
		}
		total += end
	}
	return total, nil
}
