// Command compat runs other people's Kafka clients against the built binary and compares what passes with the allow
// list of each. It imports none of sluice's packages: it sees what a user sees.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sluice/compat/checks"
	franzgo "sluice/compat/franz-go"
	"sluice/compat/harness"
	kafkago "sluice/compat/kafka-go"
	"sluice/compat/sarama"
)

// options are the flags.
type options struct {
	binary string // the broker under test
	tools  string // where the programs of this module were built to
	full   bool   // the full sizes of the runs that have a short one
	filter string
}

// runner is one set of checks: its folder has its allow list and its findings. needs names programs; when one of them is
// missing the runner is skipped, and the driver says how to get it.
type runner struct {
	folder string
	needs  []need
	run    func(ctx context.Context, o options, address string) ([]byte, error)
}

// need is a condition that a shell command tests, and the Debian package that fulfils it.
type need struct{ test, debian string }

var needKcat = need{"command -v kcat", "kcat"}

func runners() []runner {
	return []runner{
		{"kcat", []need{needKcat}, script("bash", "kcat/check.sh")},
		{"confluent-kafka-python", []need{{"/usr/bin/python3 -c 'import confluent_kafka'", "python3-confluent-kafka"}}, script("/usr/bin/python3", "confluent-kafka-python/check.py")},
		{"franz-go", nil, library(franzgo.New)},
		{"sarama", nil, library(sarama.New)},
		{"kafka-go", nil, library(kafkago.New)},
		{"realinput", []need{needKcat}, tool("realinput")},
		{"kill9", nil, tool("kill9")},
	}
}

func main() {
	var o options
	flag.StringVar(&o.binary, "bin", "../bin/sluice", "the broker `binary` under test")
	flag.StringVar(&o.tools, "tools", "", "`directory` with the built programs of this module")
	flag.BoolVar(&o.full, "full", false, "run realinput and kill9 in their full sizes (some minutes)")
	flag.StringVar(&o.filter, "check", "", "run only the Go libraries' checks whose name contains this `text`; no allow list applies")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: compat [flags] [RUNNER ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ok, err := run(context.Background(), o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run starts a broker, runs the named runners or all of them against it, and tells whether all that must pass did.
func run(ctx context.Context, o options, names []string) (bool, error) {
	dir, err := os.MkdirTemp("", "sluice-compat-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	broker, err := harness.Start(o.binary, dir)
	if err != nil {
		return false, err
	}
	var total harness.Verdict
	for _, r := range runners() {
		if len(names) > 0 && !slices.Contains(names, r.folder) {
			continue
		}
		v, err := judge(ctx, o, r, broker.Address)
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.folder, err)
		}
		total.Passed += v.Passed
		total.Failed += v.Failed
		total.Skipped += v.Skipped
		total.Broken = append(total.Broken, v.Broken...)
	}
	if err := broker.Stop(); err != nil {
		return false, err
	}
	if len(total.Broken) > 0 {
		fmt.Println(broker.LogTail())
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", total.Passed, total.Failed, total.Skipped)
	return len(total.Broken) == 0, nil
}

// judge runs one runner and prints a line about it, and what is not as its allow list says.
func judge(ctx context.Context, o options, r runner, address string) (harness.Verdict, error) {
	mustPass, err := harness.ReadAllowList(filepath.Join(r.folder, "tests.allow"))
	if err != nil {
		return harness.Verdict{}, err
	}
	for _, n := range r.needs {
		if !fulfil(n) {
			fmt.Printf("%-24s skipped: it needs the Debian package %s (apt-get install %s)\n", r.folder, n.debian, n.debian)
			return harness.Verdict{Skipped: len(mustPass)}, nil
		}
	}
	output, err := r.run(ctx, o, address)
	if err != nil {
		return harness.Verdict{}, err
	}
	results, err := harness.ParseResults(bytes.NewReader(output))
	if err != nil {
		return harness.Verdict{}, err
	}
	if o.filter != "" {
		mustPass = nil
	}
	v := harness.Judge(results, mustPass)
	fmt.Printf("%-24s %d passed, %d failed, %d skipped\n", r.folder, v.Passed, v.Failed, v.Skipped)
	for _, name := range v.Broken {
		fmt.Printf("    must pass: %s\n", name)
	}
	if o.filter == "" {
		for _, name := range v.News {
			fmt.Printf("    passes and could go on the allow list: %s\n", name)
		}
	}
	return v, nil
}

// fulfil installs what is missing, where that is possible without asking: as root on a Debian system.
func fulfil(n need) bool {
	if exec.Command("sh", "-c", n.test).Run() == nil {
		return true
	}
	if os.Geteuid() != 0 {
		return false
	}
	fmt.Fprintf(os.Stderr, "installing %s\n", n.debian)
	install := "timeout 120 apt-get update -qq && timeout 120 apt-get install -y -qq --no-install-recommends " + n.debian
	return exec.Command("sh", "-c", install+" && "+n.test).Run() == nil
}

// script runs a script with the broker's address as its argument.
func script(interpreter, file string) func(context.Context, options, string) ([]byte, error) {
	return func(ctx context.Context, _ options, address string) ([]byte, error) {
		return output(exec.CommandContext(ctx, interpreter, file, address))
	}
}

// library runs the checks with a Go library.
func library(connect func(address string) (checks.Client, error)) func(context.Context, options, string) ([]byte, error) {
	return func(ctx context.Context, o options, address string) ([]byte, error) {
		client, err := connect(address)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		var out bytes.Buffer
		checks.Run(ctx, client, &out, os.Stderr, o.filter)
		return out.Bytes(), nil
	}
}

// tool runs a program of this module that starts a broker of its own.
func tool(name string) func(context.Context, options, string) ([]byte, error) {
	return func(ctx context.Context, o options, _ string) ([]byte, error) {
		args := []string{"-bin", o.binary}
		if !o.full {
			args = append(args, "-short")
		}
		return output(exec.CommandContext(ctx, filepath.Join(o.tools, name), args...))
	}
}

// output returns what a runner printed; its exit code says no more than its lines do.
func output(command *exec.Cmd) ([]byte, error) {
	command.Stderr = os.Stderr
	out, err := command.Output()
	if _, failed := err.(*exec.ExitError); failed && len(out) > 0 {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command.Args, " "), err)
	}
	return out, nil
}
