// Command realinput writes the source tree of the Go distribution to a broker and compares what comes back.
//
// Two writers, kcat and `sluice produce`, write in each codec: each file as one record with its path as the key, and each
// line of the largest files as one record. Other clients than the one that wrote read from offset 0, from the middle,
// and from a timestamp; the SHA-256 of every file is compared. Then both writers write the files again, idempotently,
// while the broker is killed with SIGKILL and restarted: every file must be there, once.
//
// It prints one line for each of these runs: its name, a comma, PASS or FAIL. Reasons and volumes go to standard error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/compat/harness"
)

// stepTimeout bounds one run: writing once and reading three times.
const stepTimeout = 5 * time.Minute

type options struct {
	binary string
	source string // the tree
	short  bool
	filter string
}

func main() {
	var o options
	flag.StringVar(&o.binary, "bin", "../bin/sluice", "the broker `binary` under test, which is also a writer")
	flag.StringVar(&o.source, "src", "", "`directory` with the files (default: the source tree of the Go distribution)")
	flag.BoolVar(&o.short, "short", false, "take a few megabytes of it")
	flag.StringVar(&o.filter, "run", "", "only the runs whose name contains this `text`")
	flag.Parse()
	ok, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "realinput:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(o options) (bool, error) {
	in, err := findInput(o)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(os.Stderr, "realinput: %d files, %d bytes; %d lines in the %d largest\n", len(in.files), in.bytes, in.lines, len(in.largest))
	dir, err := os.MkdirTemp("", "sluice-realinput-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	broker, err := harness.Start(o.binary, dir)
	if err != nil {
		return false, err
	}
	defer broker.Kill()
	t, err := newTester(o, in, broker)
	if err != nil {
		return false, err
	}
	defer t.close()
	return t.all(), nil
}

// findInput takes the whole tree, or for a short run one package tree of it that has small and large files.
func findInput(o options) (*input, error) {
	if o.source == "" {
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return nil, fmt.Errorf("find the Go distribution: %w", err)
		}
		o.source = filepath.Join(strings.TrimSpace(string(root)), "src")
		if o.short {
			o.source = filepath.Join(o.source, "encoding")
		}
	}
	largest := 20
	if o.short {
		largest = 3
	}
	return readInput(o.source, largest)
}

// all makes all the runs and tells whether each passed.
func (t *tester) all() bool {
	ok := true
	step := func(name string, f func(context.Context) error) {
		if !strings.Contains(name, t.options.filter) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		result := harness.Pass
		if err := f(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "realinput: %s: %v\n", name, err)
			result, ok = harness.Fail, false
		}
		fmt.Printf("%s,%s\n", name, result)
	}
	for _, w := range t.writers() {
		for n, codec := range codecs {
			step(fmt.Sprintf("%s %s one record a file", w.name, codec), func(ctx context.Context) error { return t.files(ctx, w, codec, n) })
			step(fmt.Sprintf("%s %s one record a line", w.name, codec), func(ctx context.Context) error { return t.lines(ctx, w, codec, n) })
		}
		step(w.name+" across kill -9", func(ctx context.Context) error { return t.acrossKills(ctx, w) })
	}
	return ok
}
