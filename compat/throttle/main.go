// Command throttle holds consumers of other people's clients back and counts what they get: topics and groups have a limit
// of ten messages a second, and each of the clients reads them in its own consumer groups, with the client id that it has by default. It
// starts a broker of its own.
//
// It prints one line for each client and situation: its name, a comma, and PASS, FAIL or SKIP. What was counted goes to
// standard error when it is wrong.
//
//	throttle [-bin BINARY] [-short] [CLIENT ...]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"sluice/compat/harness"
	"sluice/compat/members"
)

// How long is counted, in seconds.
const (
	fullSeconds  = 60
	shortSeconds = 5
)

// clients are those that read. They are skipped where their programs are not.
var clients = []string{"franz-go", "franz-go-consumer", "sarama", "kafka-go", "kcat", "confluent-kafka-python"}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "member" {
		if err := members.Run(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "member:", err)
			os.Exit(1)
		}
		return
	}
	binary := flag.String("bin", "../bin/sluice", "the broker `binary` under test")
	short := flag.Bool("short", false, "count for five seconds only")
	flag.Parse()
	names := flag.Args()
	if len(names) == 0 {
		names = clients
	}
	seconds := fullSeconds
	if *short {
		seconds = shortSeconds
	}
	if err := run(*binary, names, seconds); err != nil {
		fmt.Fprintln(os.Stderr, "throttle:", err)
		os.Exit(1)
	}
}

// run has all clients read at the same time: they wait most of it.
func run(binary string, names []string, seconds int) error {
	dir, err := os.MkdirTemp("", "sluice-throttle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broker, err := harness.Start(binary, dir, "--set", "dispatch.throttling.precise.flow.control=true", "--set", "group.initial.rebalance.delay.ms=500")
	if err != nil {
		return err
	}
	defer broker.Kill()
	var out sync.Mutex
	var running sync.WaitGroup
	for _, name := range names {
		c, err := members.Named(name)
		if err != nil {
			return err
		}
		for i, r := range situations {
			running.Go(func() {
				result := judge(c, r, fmt.Sprintf("%s-%d", name, i), broker.Address, seconds)
				out.Lock()
				defer out.Unlock()
				fmt.Printf("%s: %s,%s\n", name, r.name, result)
			})
		}
	}
	running.Wait()
	return nil
}

// startTime bounds the time until all members read.
const startTime = 60 * time.Second

func judge(c members.Client, r situation, topic, address string, seconds int) harness.Result {
	if !available(c) {
		return harness.Skip
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime+time.Duration(seconds)*time.Second)
	defer cancel()
	if err := r.check(ctx, c, topic, address, seconds); err != nil {
		fmt.Fprintf(os.Stderr, "throttle: %s: %s: %v\n", c.Name, r.name, err)
		return harness.Fail
	}
	return harness.Pass
}

// available tells whether a client's program is there.
func available(c members.Client) bool {
	argv := c.Argv("", "", "")
	if _, err := exec.LookPath(argv[0]); err != nil {
		return false
	}
	return c.Name != "confluent-kafka-python" || exec.Command(argv[0], "-c", "import confluent_kafka").Run() == nil
}
