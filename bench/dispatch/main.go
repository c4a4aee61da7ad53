// Dispatch shows what dispatch throttling does: it runs the examples of docs/throttling.md against a broker in this process, with ordinary
// consumers (franz-go), prints what each period brought and draws it.
//
//	go run ./bench/dispatch [--out docs/images] [--seconds 10] [--only NAME]
//	go run ./bench/dispatch --accuracy [--seconds 60]     how near the rates come to limits from 1 a second to 100 MB a second
//	go run ./bench/dispatch --cost [--bin bin/sluice] [--before OTHER] [--rounds 40]    what limits that never bind cost a built broker, and beside
//	                                                                                    another one
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

func main() {
	out := flag.String("out", "docs/images", "folder for the pictures, one SVG an example; empty draws none")
	seconds := flag.Int("seconds", 10, "periods of one second to look at")
	only := flag.String("only", "", "the one example to run, by name")
	rates := flag.Bool("accuracy", false, "measure rates instead")
	costs := flag.Bool("cost", false, "measure CPU time instead")
	binary := flag.String("bin", "bin/sluice", "with --cost: the broker `binary`")
	before := flag.String("before", "", "with --cost: another `binary`, from before there were limits")
	rounds := flag.Int("rounds", 40, "with --cost: runs of each")
	flag.Parse()
	run := func(ctx context.Context) error { return runAll(ctx, *out, *seconds, *only) }
	switch {
	case *rates:
		run = func(ctx context.Context) error { return accuracy(ctx, *seconds) }
	case *costs:
		run = func(ctx context.Context) error { return cost(ctx, os.Stdout, *binary, *before, *rounds) }
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dispatch:", err)
		os.Exit(1)
	}
}

// runAll runs the examples beside each other: they wait most of the time.
func runAll(ctx context.Context, out string, seconds int, only string) error {
	results := make([]result, len(examples))
	errs := make([]error, len(examples))
	var wg sync.WaitGroup
	for i, e := range examples {
		if only == "" || only == e.name {
			wg.Go(func() { results[i], errs[i] = e.run(ctx, seconds) })
		}
	}
	wg.Wait()
	for i, e := range examples {
		if errs[i] != nil {
			return fmt.Errorf("%s: %w", e.name, errs[i])
		}
		if results[i].series == nil {
			continue
		}
		fmt.Print(results[i].text(e))
		if out == "" {
			continue
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "throttle-"+e.name+".svg"), draw(e, results[i]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// result is the messages that came in each period, by consumer.
type result struct {
	names  []string
	series [][]int
}

// text is one line a consumer.
func (r result) text(e example) string {
	var b strings.Builder
	for i, name := range r.names {
		fmt.Fprintf(&b, "%-14s %-8s %s\n", e.name, name, strings.Trim(fmt.Sprint(r.series[i]), "[]"))
	}
	return b.String()
}
