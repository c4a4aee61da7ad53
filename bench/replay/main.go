// Replay shows what a replay does to those who read live, and what a limit on the replay does about it: groups read a backlog from its beginning
// while one consumer follows the end of the same topic. It measures the time from producing a record to its arrival there, without
// replay, with it, and with a limit on the replaying groups, prints the percentiles and draws them over time.
//
//	go run ./bench/replay [--out docs/images] [--backlog 2048] [--groups 10] [--limit 500000] [--seconds 20]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice"
	"sluice/bench/internal/chart"
)

// options are the flags.
type options struct {
	out     string
	backlog int // MiB
	groups  int
	limit   int64 // bytes a second, for each group on each partition
	seconds int   // of each run
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "docs/images", "folder for the picture; empty draws none")
	flag.IntVar(&o.backlog, "backlog", 2048, "MiB that are there before")
	flag.IntVar(&o.groups, "groups", 10, "groups that replay")
	flag.Int64Var(&o.limit, "limit", 500_000, "bytes a second that a replaying group may have of each partition")
	flag.IntVar(&o.seconds, "seconds", 20, "length of each run")
	flag.Parse()
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// runs are the three situations.
var runs = []run{
	{name: "no replay"},
	{name: "replay", replays: true},
	{name: "replay with a limit", replays: true, limited: true},
}

// run is one situation and what was measured in it.
type run struct {
	name             string
	replays, limited bool
	sights           []sight
	replayed         int64 // bytes
}

// sight is a record that has come to the end of the topic's reader.
type sight struct {
	at      time.Duration // since the begin of the run
	latency time.Duration // since it was produced
}

func (o options) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "sluice-replay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing of it is kept
	b, err := sluice.Start(sluice.Options{DataDir: dir})
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // as above
	if err := o.fill(ctx, b.Addr()); err != nil {
		return fmt.Errorf("write the backlog: %w", err)
	}
	for i := range runs {
		if err := o.measure(ctx, b.Addr(), i); err != nil {
			return fmt.Errorf("%s: %w", runs[i].name, err)
		}
		fmt.Println(runs[i].text(o.seconds))
	}
	if o.out == "" {
		return nil
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "throttle-replay.svg"), draw(runs, o.seconds), 0o644)
}

// text is the percentiles of a run.
func (r *run) text(seconds int) string {
	all := make([]time.Duration, 0, len(r.sights))
	for _, s := range r.sights {
		all = append(all, s.latency)
	}
	return fmt.Sprintf("%-20s records %5d  p50 %8v  p99 %8v  max %8v  replayed %4d MB/s", r.name, len(all),
		chart.Percentile(all, 50), chart.Percentile(all, 99), chart.Percentile(all, 100), r.replayed/int64(seconds)/1e6)
}
