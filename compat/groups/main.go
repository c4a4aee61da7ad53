// Command groups runs one life of a consumer group with the members of one client, each a process of its own: two share a topic, a third
// comes, one is killed with SIGKILL, all leave, and one comes after them, while records are written. It starts a broker of its own, or
// uses one that runs and has neither the topic nor the group yet, so that another broker can be compared.
//
// It prints one line for each step and promise: its name, a comma, PASS or FAIL. Reasons go to standard error.
//
//	groups [-bin BINARY | -address HOST:PORT] [-short] CLIENT
//
// A member of a Go library is this program itself: groups member LIBRARY ADDRESS GROUP TOPIC PROTOCOL.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"sluice/compat/harness"
	"sluice/compat/members"
)

// fullRounds is how many members are killed, one after the other, in the full run.
const fullRounds = 6

// brokerFlags give the consumer protocol, in which the broker says how long a session is, the times that the members of
// the classic one ask for.
var brokerFlags = []string{
	"--set", "group.consumer.min.session.timeout.ms=6000", "--set", "group.consumer.session.timeout.ms=6000",
	"--set", "group.consumer.min.heartbeat.interval.ms=500", "--set", "group.consumer.heartbeat.interval.ms=500",
}

func main() {
	address := flag.String("address", "", "`HOST:PORT` of a broker that runs")
	members.Main("groups", "kill one member only", func(o members.Options) error {
		rounds := fullRounds
		if o.Short {
			rounds = 1
		}
		c, err := members.Named(flag.Arg(0))
		switch {
		case err != nil:
			return err
		case *address != "":
			return live(c, *address, rounds)
		}
		return run(o.Binary, c, rounds)
	})
}

var errFailed = errors.New("a step failed")

// run is live with a broker of its own.
func run(binary string, c members.Client, rounds int) error {
	dir, err := os.MkdirTemp("", "sluice-groups-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broker, err := harness.Start(binary, dir, brokerFlags...)
	if err != nil {
		return err
	}
	defer broker.Kill()
	err = live(c, broker.Address, rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, broker.LogTail())
	}
	return err
}

// live runs the scenario and prints the results.
func live(c members.Client, address string, rounds int) error {
	s, err := newScenario(c, address, rounds)
	if err != nil {
		return err
	}
	failed := false
	s.run(func(step string, err error) {
		result := harness.Pass
		if err != nil {
			result, failed = harness.Fail, true
			fmt.Fprintf(os.Stderr, "groups: %s: %s: %v\n", c.Name, step, err)
		}
		fmt.Printf("%s,%s\n", step, result)
	})
	s.close()
	if failed {
		fmt.Fprintf(os.Stderr, "groups: %s: the steps took %s seconds\n%s", c.Name, strings.Join(s.took, ", "), s.errors.String())
		return errFailed
	}
	return nil
}
