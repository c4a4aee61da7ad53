// Command compat runs other people's Kafka clients against the built binary and compares what passes with the allow
// list of each. It imports none of sluice's packages: it sees what a user sees.
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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
	// without is a folder that is left out, since it has its turn elsewhere.
	without string
}

// runner is one set of checks: its folder has its allow list and its findings. needs says what must be there; when something is
// missing the runner is skipped, and the driver says how to get it.
type runner struct {
	name   string // the folder, unless several share it
	folder string
	allow  string // tests.allow unless said otherwise
	needs  []need
	beside bool // it has a broker of its own and mostly waits, so such runners run at the same time
	full   bool // it takes minutes and is run only in full
	run    func(ctx context.Context, o options, address string) ([]byte, error)
}

func runners() []runner {
	list := []runner{
		{folder: "kcat", needs: []need{needKcat}, run: script("bash", "kcat/check.sh")},
		{folder: "confluent-kafka-python", needs: []need{needPython}, run: script("/usr/bin/python3", "confluent-kafka-python/check.py")},
		{folder: "kafka-configs", needs: []need{needKafkaTools}, run: script("bash", "kafka-configs/check.sh")},
		{folder: "kafka-dump-log", needs: []need{needKafkaTools}, run: tool("kafka-dump-log")},
		{folder: "kafka-import", needs: []need{needKafka}, beside: true, run: tool("kafka-import")},
		{folder: "franz-go", run: library(franzgo.New)},
		{folder: "sarama", run: library(sarama.New)},
		{folder: "kafka-go", run: library(kafkago.New)},
		{folder: "realinput", needs: []need{needKcat}, run: tool("realinput")},
		{folder: "kill9", run: tool("kill9")},
		{folder: "throttle", needs: []need{needKcat, needPython}, beside: true, run: tool("throttle")},
		{name: "throttle/many", folder: "throttle", allow: "many.allow", full: true, run: tool("throttle", "-row", "ten thousand partitions")},
		{name: "throttle/kafkajs", folder: "throttle", allow: "kafkajs.allow", needs: []need{needKafkajs}, beside: true, run: tool("throttle", "kafkajs")},
		{name: "throttle/java", folder: "throttle", allow: "java.allow", needs: []need{needJava}, beside: true, run: tool("throttle", "-row", "of each partition", "java-consumer")},
		{name: "throttle/java-quotas", folder: "throttle", allow: "java-quotas.allow", needs: []need{needJava, needKafkaTools}, beside: true, run: tool("throttle", "-row", "java: ")},
		{name: "throttle/java-full", folder: "throttle", allow: "java-full.allow", needs: []need{needJava}, full: true, run: tool("throttle", "java", "java-consumer")},
		{name: "throttle/habits", folder: "throttle", allow: "habits.allow", needs: []need{needPython, needKafkajs, needJava}, full: true, run: tool("throttle", "-habits")},
		groups("franz-go"),
		groups("franz-go-consumer"),
		groups("sarama"),
		groups("kafka-go"),
		groups("kcat", needKcat),
		groups("confluent-kafka-python", needPython),
		groups("kafkajs", needKafkajs),
		groups("java", needJava),
		groups("java-consumer", needJava),
	}
	for i := range list {
		list[i].name = cmp.Or(list[i].name, list[i].folder)
		list[i].allow = cmp.Or(list[i].allow, "tests.allow")
	}
	return list
}

// groups is the life of a consumer group with the members of one client. What kafka-go cannot do is not on its list.
func groups(client string, needs ...need) runner {
	r := runner{name: "groups/" + client, folder: "groups", needs: needs, beside: true, run: tool("groups", client)}
	if client == "kafka-go" {
		r.allow = "kafka-go.allow"
	}
	return r
}

// named tells whether somebody who names runners means this one.
func (r runner) named(names []string) bool {
	return len(names) == 0 || slices.Contains(names, r.name) || slices.Contains(names, r.folder)
}

func main() {
	var o options
	flag.StringVar(&o.binary, "bin", "../bin/sluice", "the broker `binary` under test")
	flag.StringVar(&o.tools, "tools", "", "`directory` with the built programs of this module")
	flag.BoolVar(&o.full, "full", false, "run realinput, kill9, groups and throttle in their full sizes (some minutes)")
	flag.StringVar(&o.without, "without", "", "leave out this `folder`")
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
	for _, s := range start(ctx, o, names, broker.Address) {
		v, err := judge(o, s)
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.name, err)
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

// started is a runner on its way.
type started struct {
	runner
	missing *need
	output  func() ([]byte, error) // waits for its end
}

// start prepares the runners that are meant, in their order. A runner begins when its output is asked for; those that run beside each
// other all begin with the first of them.
func start(ctx context.Context, o options, names []string, address string) []started {
	var all []started
	var beside []func()
	begin := sync.OnceFunc(func() {
		for _, b := range beside {
			go b()
		}
	})
	for _, r := range runners() {
		if !r.named(names) || r.full && !o.full || r.folder == o.without {
			continue
		}
		s := started{runner: r, missing: r.missing()}
		s.output = sync.OnceValues(func() ([]byte, error) { return r.run(ctx, o, address) })
		if r.beside && s.missing == nil {
			once := s.output
			beside = append(beside, func() { once() })
			s.output = func() ([]byte, error) {
				begin()
				return once()
			}
		}
		all = append(all, s)
	}
	return all
}

// judge waits for one runner and prints a line about it, and what is not as its allow list says.
func judge(o options, r started) (harness.Verdict, error) {
	mustPass, err := harness.ReadAllowList(filepath.Join(r.folder, r.allow))
	if err != nil {
		return harness.Verdict{}, err
	}
	if r.missing != nil {
		fmt.Printf("%-31s SKIPPED: it needs %s\n", r.name, r.missing.what)
		return harness.Verdict{Skipped: len(mustPass)}, nil
	}
	output, err := r.output()
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
	fmt.Printf("%-31s %d passed, %d failed, %d skipped\n", r.name, v.Passed, v.Failed, v.Skipped)
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
func tool(name string, arguments ...string) func(context.Context, options, string) ([]byte, error) {
	return func(ctx context.Context, o options, _ string) ([]byte, error) {
		args := []string{"-bin", o.binary}
		if !o.full {
			args = append(args, "-short")
		}
		return output(exec.CommandContext(ctx, filepath.Join(o.tools, name), append(args, arguments...)...))
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
