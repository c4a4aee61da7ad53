// Command throttle holds consumers of other people's clients back and counts what they get: topics and groups have a limit
// of ten messages a second, and each of the clients reads them in its own consumer groups, with the client id that it has by default. It
// starts a broker of its own.
//
// It prints one line for each client and situation: its name, a comma, and PASS, FAIL or SKIP. What was counted goes to
// standard error when it is wrong.
//
// Beside them it runs the rows of rows.go, whatever else is to be seen of a limit, each with a broker of its own; then their names alone are printed.
//
//	throttle [-bin BINARY] [-short] [-row TEXT] [CLIENT ...]            without clients: all, and all rows
//	throttle [-bin BINARY] -habits [-row TEXT]                          what clients do while they are held back (habits.go)
//	throttle -against HOST:PORT -via HOST:PORT [-row TEXT]              the rows of client quotas, with Apache Kafka
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/compat/harness"
	"sluice/compat/members"
	"sluice/compat/reader"
)

// How long is counted, in seconds.
const (
	fullSeconds  = 60
	shortSeconds = 5
)

// clients are those that read. They are skipped where their programs are not.
var clients = []string{"franz-go", "franz-go-consumer", "sarama", "kafka-go", "kcat", "confluent-kafka-python"}

func main() {
	only := flag.String("row", "", "only the rows, situations and habits whose names contain this `text`")
	withHabits := flag.Bool("habits", false, "the habits instead of all else")
	against := flag.String("against", "", "run the rows of client quotas with the broker at this `address`, one after the other")
	via := flag.String("via", "", "the `address` that the broker of -against advertises; what goes there is passed on to it")
	if len(os.Args) > 1 && os.Args[1] == "reader" {
		if err := reader.Run(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "reader:", err)
			os.Exit(1)
		}
		return
	}
	members.Main("throttle", "count for five seconds only", func(o members.Options) error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		t := &test{ctx: ctx, binary: o.Binary, seconds: fullSeconds, against: *against, via: *via}
		if o.Short {
			t.seconds = shortSeconds
		}
		if *withHabits {
			t.habits(*only)
			t.running.Wait()
			return nil
		}
		return t.run(flag.Args(), *only)
	})
}

// test is all that is counted, and what is said about it.
type test struct {
	ctx     context.Context // ends when somebody wants the program to
	binary  string
	seconds int
	against string     // a broker that is not ours
	via     string     // which it advertises
	one     sync.Mutex // of its rows
	out     sync.Mutex // of standard output
	running sync.WaitGroup
}

// run has all run at the same time, since they wait most of it, but for the rows of quotas. Without names it is all clients and all rows but those that have to be asked for.
func (t *test) run(names []string, only string) error {
	withRows := len(names) == 0
	if withRows && only == "" && t.against == "" {
		names = clients
	}
	if len(names) > 0 {
		dir, err := os.MkdirTemp("", "sluice-throttle-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		broker, err := harness.Start(t.binary, dir, "--set", precise+"=true", "--set", "group.initial.rebalance.delay.ms=500")
		if err != nil {
			return err
		}
		defer broker.Kill()
		if err := t.clients(names, only, broker.Address); err != nil {
			return err
		}
	}
	if withRows {
		t.rows(only, false)
	}
	t.running.Wait()
	if withRows { // afterwards, since their producers are never idle
		t.rows(only, true)
	}
	t.running.Wait()
	return nil
}

// clients begins the situations with each client.
func (t *test) clients(names []string, only, address string) error {
	for _, name := range names {
		c, err := members.Named(name)
		if err != nil {
			return err
		}
		for i, r := range situations {
			if !strings.Contains(r.name, only) {
				continue
			}
			t.running.Go(func() {
				t.report(name+": "+r.name, available(c), func(ctx context.Context) error {
					return r.check(ctx, c, fmt.Sprintf("%s-%d", name, i), address, t.seconds)
				})
			})
		}
	}
	return nil
}

// rows begins the rows that look at the wire, or the others.
func (t *test) rows(only string, wired bool) {
	for _, r := range rows {
		if r.wired != wired || r.alone && only == "" || !strings.Contains(r.name, only) || t.against != "" && (!r.wired || r.own) {
			continue
		}
		t.running.Go(func() {
			if t.against != "" {
				t.one.Lock()
				defer t.one.Unlock()
			}
			t.reportRow(r)
		})
	}
}

func (t *test) reportRow(r row) {
	t.report(r.name, r.possible == nil || r.possible(), func(ctx context.Context) error { return t.try(ctx, r) })
}

// startTime bounds the time until all members read.
const startTime = 60 * time.Second

// report checks something and prints a line about it.
func (t *test) report(name string, possible bool, check func(context.Context) error) {
	ctx, cancel := context.WithTimeout(t.ctx, startTime+time.Duration(4*t.seconds)*time.Second)
	defer cancel()
	result := harness.Skip
	if possible {
		result = harness.Pass
		if err := check(ctx); err != nil {
			result = harness.Fail
			fmt.Fprintf(os.Stderr, "throttle: %s: %v\n", name, err)
		}
	}
	t.out.Lock()
	defer t.out.Unlock()
	fmt.Printf("%s,%s\n", name, result)
}

// available tells whether a client's program is there.
func available(c members.Client) bool {
	argv := c.Argv("", "", "")
	if _, err := exec.LookPath(argv[0]); err != nil {
		return false
	}
	return c.Name != "confluent-kafka-python" || exec.Command(argv[0], "-c", "import confluent_kafka").Run() == nil
}
