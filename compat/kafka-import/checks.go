package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/compat/harness"
)

// Exit codes of `sluice log import`.
const (
	allImported = 0
	someRefused = 1
	notImported = 2
)

// imported is what the command says of a topic.
type imported struct {
	Topics []struct{ Topic, Refused string }
}

// importInto runs the command and wants an exit code.
func (t *tester) importInto(data string, code int, flags ...string) (imported, error) {
	args := append([]string{"log", "import", "-o", "json", "--data-dir", data, t.source}, flags...)
	command := exec.Command(t.binary, args...)
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return imported{}, err
	}
	if got := command.ProcessState.ExitCode(); got != code {
		return imported{}, fmt.Errorf("log import %v ends with %d, not %d: %s", flags, got, code, errs.String())
	}
	var r imported
	if code == notImported {
		return r, errors.New(errs.String())
	}
	return r, json.Unmarshal(out, &r)
}

// data is a data directory for one import; a broker started in its parent finds it.
func (t *tester) data(name string) (dir, data string) {
	dir = filepath.Join(t.dir, name)
	return dir, filepath.Join(dir, "data")
}

func (t *tester) refusesRunning() error {
	_, data := t.data("running")
	_, err := t.importInto(data, notImported)
	if err == nil || !strings.Contains(err.Error(), "in use by a running Kafka") {
		return fmt.Errorf("it says %v", err)
	}
	return absent(data)
}

func absent(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is %s (%v)", path, err)
	}
	return nil
}

// checks imports in all ways.
func (t *tester) checks(ctx context.Context) {
	t.check("dry run", t.dryRun())
	t.check("aborted transactions are refused", t.refusesAborted())
	t.check("aborted transactions kept", t.keepsAborted(ctx))
	dir, data := t.data("imported")
	_, err := t.importInto(data, allImported, "--lost=empty")
	t.check("import", err)
	if err != nil {
		return
	}
	broker, err := harness.Start(t.binary, dir)
	if err != nil {
		t.check("start", err)
		return
	}
	t.check("records, offsets and epochs", t.compare(ctx, broker.Address, t.all.of(plain, compacted, trimmed, unused, committed)))
	t.check("aborted transactions left out", t.compare(ctx, broker.Address, t.committed.of(aborted)))
	t.check("settings", settings(ctx, broker.Address))
	t.check("committed offsets", commits(ctx, broker.Address))
	t.check("appends go on", t.append(ctx, broker.Address))
	t.check("stop and verify", errors.Join(broker.Stop(), exec.Command(t.binary, "log", "verify", data).Run()))
}

func (t *tester) dryRun() error {
	_, data := t.data("dry")
	r, err := t.importInto(data, allImported, "--dry-run", "--lost=empty")
	if err == nil && len(r.Topics) != len(topicConfigs) {
		err = fmt.Errorf("it finds %+v", r.Topics)
	}
	return errors.Join(err, absent(data))
}

// refusesAborted wants all topics but one.
func (t *tester) refusesAborted() error {
	_, data := t.data("refused")
	r, err := t.importInto(data, someRefused)
	if err != nil {
		return err
	}
	for _, x := range r.Topics {
		if (x.Refused != "") != (x.Topic == aborted) {
			return fmt.Errorf("topic %s: %q", x.Topic, x.Refused)
		}
	}
	return absent(filepath.Join(data, aborted+"-0"))
}

func (t *tester) keepsAborted(ctx context.Context) error {
	dir, data := t.data("kept")
	if _, err := t.importInto(data, allImported, "--lost=keep", "--topic", aborted); err != nil {
		return err
	}
	broker, err := harness.Start(t.binary, dir)
	if err != nil {
		return err
	}
	return errors.Join(t.compare(ctx, broker.Address, t.all.of(aborted)), broker.Stop())
}

// compare reads what Kafka was seen to have.
func (t *tester) compare(ctx context.Context, address string, want view) error {
	topics := map[string]bool{}
	var names []string
	for p := range want {
		if !topics[p.Topic] {
			topics[p.Topic], names = true, append(names, p.Topic)
		}
	}
	got, err := read(ctx, address, names, kgo.ReadUncommitted(), want)
	if err != nil {
		return err
	}
	return want.same(got)
}

func settings(ctx context.Context, address string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	for name, want := range topicConfigs {
		described, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, name)
		if err != nil {
			return err
		}
		for _, c := range described[0].Configs {
			if v, set := want[c.Key]; set && c.MaybeValue() != v {
				return fmt.Errorf("%s has %s=%s, not %s", name, c.Key, c.MaybeValue(), v)
			}
		}
	}
	return nil
}

func commits(ctx context.Context, address string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	offsets, err := kadm.NewClient(client).FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	for p := range partitions {
		if o, ok := offsets.Lookup(plain, p); !ok || o.At != commit(p) {
			return fmt.Errorf("partition %d has %+v, not %d", p, o, commit(p))
		}
	}
	return nil
}

// append writes to each topic: at the end that it had, in a leader epoch that is higher than any.
func (t *tester) append(ctx context.Context, address string) error {
	w := &writer{address: address}
	for name := range topicConfigs {
		if err := w.write(ctx, name, nil); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for p, s := range t.all {
		client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.N: kgo.NewOffset().At(s.End)}}))
		if err != nil {
			return err
		}
		records := client.PollFetches(ctx).Records()
		client.Close()
		if len(records) == 0 || records[0].Offset != s.End {
			return fmt.Errorf("%v: nothing at offset %d", p, s.End)
		}
		for epoch := range s.Epochs {
			if records[0].LeaderEpoch <= epoch {
				return fmt.Errorf("%v: epoch %d after %d", p, records[0].LeaderEpoch, epoch)
			}
		}
	}
	return nil
}
