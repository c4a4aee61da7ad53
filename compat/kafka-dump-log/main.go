// Command kafka-dump-log has Apache Kafka's own DumpLogSegments judge the files that a broker wrote: plain and in each codec, compacted, with
// a moved log start, and the offsets of a group. It compares what the tool prints with what was produced, and damages copies to see
// that the tool can complain.
//
// It prints one line a check: its name, a comma, PASS or FAIL. Reasons go to standard error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/compat/harness"
)

// timeout bounds the run: writing, compaction, and a few starts of Java.
const timeout = 2 * time.Minute

func main() {
	binary := flag.String("bin", "../bin/sluice", "the broker `binary` under test")
	flag.Bool("short", false, "no effect: there is one size")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ok, err := run(ctx, *binary)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka-dump-log:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string) (bool, error) {
	dir, err := os.MkdirTemp("", "sluice-dump-log-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	broker, err := harness.Start(binary, dir, "--set", "log.cleaner.backoff.ms=50", "--set", "log.segment.delete.delay.ms=0")
	if err != nil {
		return false, err
	}
	topics, err := write(ctx, broker.Address)
	if err != nil {
		_ = broker.Kill()
		return false, err
	}
	if err := broker.Stop(); err != nil {
		return false, err
	}
	return judge(ctx, broker.DataDir, filepath.Join(dir, "damaged"), topics)
}

// judge runs the tool over everything and prints a line for each check.
func judge(ctx context.Context, data, damaged string, topics []*topic) (bool, error) {
	var logs, indexes []string
	for _, t := range topics {
		logs = append(logs, files(data, t.name+"-0", ".log")...)
		indexes = append(indexes, files(data, t.name+"-0", ".index", ".timeindex")...)
	}
	found, err := dumpLogSegments(ctx, append(logs, indexes...), "--deep-iteration", "--print-data-log")
	if err != nil {
		return false, err
	}
	r := report{ok: true}
	for _, t := range topics {
		r.check(t.what, t.compare(found.of(t.name+"-0")))
	}
	sane, err := dumpLogSegments(ctx, indexes, "--index-sanity-check")
	if err != nil {
		return false, err
	}
	r.check("index sanity", sane.saneAre(len(indexes)))
	offsets, err := dumpLogSegments(ctx, files(data, offsetsTopic+"-*", ".log"), "--offsets-decoder")
	if err != nil {
		return false, err
	}
	r.check("committed offsets", commitsIn(offsets, topics))
	r.check("a flipped byte and a wrong index entry are seen", complains(ctx, data, damaged, topics[0]))
	return r.ok, nil
}

// report prints results.
type report struct{ ok bool }

func (r *report) check(name string, err error) {
	result := harness.Pass
	if err != nil {
		result, r.ok = harness.Fail, false
		fmt.Fprintf(os.Stderr, "kafka-dump-log %s: %v\n", name, err)
	}
	fmt.Printf("%s,%s\n", name, result)
}

// files lists the files of partitions with any of the suffixes, in order of the log.
func files(data, partition string, suffixes ...string) []string {
	var all []string
	for _, s := range suffixes {
		names, _ := filepath.Glob(filepath.Join(data, partition, "*"+s)) // only a bad pattern fails
		all = append(all, names...)
	}
	return all
}
