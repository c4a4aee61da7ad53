// Soak runs the broker, a process of its own with an empty data directory, under full load for a long time: a topic that is written as fast as it goes
// and kept by retention.bytes, two compacted ones (one with delete beside compact), consumers that check every record, and a probe that measures
// what a small producer and its consumer see meanwhile. Phases in which segments roll, are deleted and compacted take turns with phases of the same load
// on topics where nothing of that happens, so that what it costs is told from what the machine does. In the end it prints a verdict for each bound,
// and draws the run; the exit code is 0 if all bounds held, 1 if one was broken, 2 if the run failed.
//
//	go run ./bench/soak [--duration 30m] [--durability fsync|os] [--out docs/images]
//	go run ./bench/soak --duration 20s --phase 5s --out ''        a trial
//
// It takes up to --control-mib and what retention keeps on the disk of --dir (10 GB by default), and removes it when it ends. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// probeArg is the first argument of the process that is the probe.
const probeArg = "as-probe"

// options are the flags.
type options struct {
	duration, phase, settle time.Duration
	durability              string
	partitions              int
	size                    int // bytes of a value of the full-rate topic
	segmentMiB              int64
	retentionMiB            int64
	controlMiB              int64
	keyedRate               float64 // MB/s
	keys                    int
	deleteDelay             time.Duration
	cleanerRate             float64 // MB/s; 0: no limit
	perSecond               int
	slackMiB                int64
	cliff                   float64
	binary, dir, out        string
	keep                    bool
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == probeArg {
		perSecond, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = probe(os.Args[2], perSecond, os.Stdin, os.Stdout)
		}
		exit(err)
	}
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	exit(err)
}

// errBroken: a bound did not hold.
var errBroken = errors.New("a bound was broken")

func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "soak:", err)
	if errors.Is(err, errBroken) {
		os.Exit(1)
	}
	os.Exit(2)
}

func parse() options {
	var o options
	flag.DurationVar(&o.duration, "duration", 30*time.Minute, "length of the run, of all phases together")
	flag.DurationVar(&o.phase, "phase", time.Minute, "length of a phase; those of the control end earlier if they have written control-mib")
	flag.DurationVar(&o.settle, "settle", 3*time.Second, "what is not counted at the beginning of each phase")
	flag.StringVar(&o.durability, "durability", "fsync", "sluice.durability: fsync, interval or os")
	flag.IntVar(&o.partitions, "partitions", 4, "of the full-rate topic")
	flag.IntVar(&o.size, "size", 4096, "bytes of its values")
	flag.Int64Var(&o.segmentMiB, "segment-mib", 64, "its segment.bytes, in MiB")
	flag.Int64Var(&o.retentionMiB, "retention-mib", 256, "its retention.bytes, in MiB")
	flag.Int64Var(&o.controlMiB, "control-mib", 6<<10, "most that a phase of the control writes, in MiB")
	flag.Float64Var(&o.keyedRate, "keyed-rate", 4, "MB a second that each of the two compacted topics gets")
	flag.IntVar(&o.keys, "keys", 10_000, "keys of each partition of a compacted topic")
	flag.DurationVar(&o.deleteDelay, "delete-delay", 2*time.Second, "file.delete.delay.ms")
	flag.Float64Var(&o.cleanerRate, "cleaner-rate", 0, "log.cleaner.io.max.bytes.per.second, in MB; 0: no limit")
	flag.IntVar(&o.perSecond, "probe-rate", 200, "records a second of the probe")
	flag.Int64Var(&o.slackMiB, "slack-mib", 8, "what a partition may have beyond retention.bytes and a segment while its oldest segment is being deleted, in MiB")
	flag.Float64Var(&o.cliff, "cliff", 2, "how many times the control's p99 the p99 beside rolling and compaction may be")
	flag.StringVar(&o.binary, "binary", "", "the broker; empty builds it")
	flag.StringVar(&o.dir, "dir", "", "folder for the data; empty is the system's for temporary files")
	flag.StringVar(&o.out, "out", "docs/images", "folder for the picture; empty draws none")
	flag.BoolVar(&o.keep, "keep", false, "leave the data directory and the broker's log")
	flag.Parse()
	return o
}

func (o options) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(o.dir, "sluice-soak-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("data in", dir)
	} else {
		defer os.RemoveAll(dir) //nolint:errcheck // nothing of it is kept
	}
	if o.binary == "" {
		if o.binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	s, err := startServer(ctx, o.binary, dir, o.settings())
	if err != nil {
		return err
	}
	defer s.kill()
	r := &run{o: o, s: s}
	if err := r.play(ctx); err != nil {
		return errors.Join(err, r.showComplaints())
	}
	return r.conclude(ctx)
}

// settings of the broker. The rest is as shipped, the interval of retention's checks among it.
func (o options) settings() map[string]string {
	m := map[string]string{
		"sluice.durability":      o.durability,
		"log.cleaner.backoff.ms": "1000", // so that it is at work most of the time
	}
	if o.cleanerRate > 0 {
		m["log.cleaner.io.max.bytes.per.second"] = fmt.Sprint(o.cleanerRate * 1e6)
	}
	return m
}

// picture writes the picture of the run.
func (r *run) picture() error {
	if r.o.out == "" {
		return nil
	}
	if err := os.MkdirAll(r.o.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.o.out, "soak.svg"), r.draw(), 0o644)
}

func (r *run) showComplaints() error {
	if text := r.s.complaints(); text != "" {
		fmt.Println("the broker's warnings and errors, the last of them:\n" + text)
	}
	return nil
}
