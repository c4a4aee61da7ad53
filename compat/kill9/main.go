// Command kill9 kills a broker with SIGKILL again and again while idempotent producers write with acks=all, and checks
// after every restart that what the broker promised is there: each acknowledged record at its offset with its bytes,
// nothing twice, nothing out of order, nothing that nobody sent, and nothing gone that a consumer has seen. Consumer groups of both
// protocols read along, with members that come and go, and commit: each acknowledged commit stays, no group is where nobody
// tried to commit, no generation and no member epoch goes back.
//
// It prints one line for each of these promises: its name, a comma, PASS or FAIL. Counts and the seed go to standard
// error. A seed repeats the choices of the run, not the timing of the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sluice/compat/harness"
)

const (
	// verifyTimeout bounds one reading of all logs.
	verifyTimeout = 2 * time.Minute
	// shortCycles is the number of kills in the short run.
	shortCycles = 5
)

type options struct {
	binary     string
	cycles     int
	seed       uint64
	durability string
	dir        string
}

func main() {
	var o options
	short := flag.Bool("short", false, fmt.Sprintf("run %d cycles", shortCycles))
	flag.StringVar(&o.binary, "bin", "../bin/sluice", "the broker `binary` under test")
	flag.IntVar(&o.cycles, "cycles", 60, "how `many` times to kill the broker")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "`seed` of the random choices")
	flag.StringVar(&o.durability, "durability", "fsync", "sluice.durability: `fsync, interval or os`; a killed process loses nothing in any of them")
	flag.StringVar(&o.dir, "dir", "", "`directory` for the broker's files, kept (default: a temporary one, removed if all is well)")
	flag.Parse()
	if *short {
		o.cycles = shortCycles
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "kill9:", err)
		os.Exit(1)
	}
}

// errBroken says that a promise was broken; which one is printed.
var errBroken = errors.New("the broker broke a promise")

func run(o options) error {
	dir := o.dir
	if dir == "" {
		temp, err := os.MkdirTemp("", "sluice-kill9-")
		if err != nil {
			return err
		}
		dir = temp
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "kill9: seed %d, %d cycles, durability %s, files in %s\n", o.seed, o.cycles, o.durability, dir)
	err = torment(o, dir)
	if err == nil && o.dir == "" {
		err = os.RemoveAll(dir)
	}
	return err
}

// torment runs all cycles and prints the results.
func torment(o options, dir string) error {
	broker, err := harness.Start(o.binary, dir, append(groupFlags, "--set", "sluice.durability="+o.durability)...)
	if err != nil {
		return err
	}
	defer broker.Kill()
	if err := createTopic(context.Background(), broker.Address); err != nil {
		return err
	}
	known := newLedger()
	work, err := startLoad(broker.Address, o.seed, known)
	if err != nil {
		return err
	}
	book := newCommitBook()
	members, err := startCommitters(broker.Address, o.seed, book)
	if err != nil {
		return err
	}
	work.gate.Unlock()
	err = members.begun()
	work.gate.Lock()
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(o.seed, 1<<32))
	var total faults
	for cycle := 1; cycle <= o.cycles; cycle++ {
		if err := killUnderLoad(broker, work, book, random); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle, err)
		}
		found, err := verify(broker.Address, known, members)
		if err != nil {
			return fmt.Errorf("cycle %d: %w\n%s", cycle, err, broker.LogTail())
		}
		if found != (faults{}) {
			fmt.Fprintf(os.Stderr, "kill9: cycle %d: %+v\n", cycle, found)
			total.add(found)
		}
	}
	return finish(o, broker, work, known, members, total)
}

// killUnderLoad opens the gate, kills the broker after a random time, sometimes kills it again while it recovers, and
// starts it for good. The gate is closed at the end.
func killUnderLoad(broker *harness.Broker, work *load, book *commitBook, random *rand.Rand) error {
	work.gate.Unlock()
	defer work.gate.Lock()
	alive := 50 + random.IntN(350)
	if random.IntN(6) == 0 {
		alive += random.IntN(3000) // the groups' rebalances come to an end, too
	}
	time.Sleep(time.Duration(alive) * time.Millisecond)
	if err := broker.Kill(); err != nil {
		return err
	}
	book.killed()
	for random.IntN(4) == 0 {
		if err := broker.Launch(); err != nil {
			return err
		}
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		if err := broker.Kill(); err != nil {
			return err
		}
	}
	return broker.Restart()
}

// verify compares the log and the commits with everything that was promised until now.
func verify(address string, known *ledger, members *committers) (faults, error) {
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	if err := members.verify(ctx); err != nil {
		return faults{}, err
	}
	promised := known.promises()
	logs, err := readLogs(ctx, address)
	if err != nil {
		return faults{}, err
	}
	return known.check(logs, promised), nil
}

// finish lets every record be acknowledged and committed, checks once more, stops the broker and prints the results.
func finish(o options, broker *harness.Broker, work *load, known *ledger, members *committers, total faults) error {
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	if err := work.flush(ctx); err != nil {
		return err
	}
	behind := members.arrived(known.ends())
	found, err := verify(broker.Address, known, members)
	if err != nil {
		return err
	}
	total.add(found)
	work.close()
	members.close()
	if err := broker.Stop(); err != nil {
		return err
	}
	var r report
	r.records(o, known, total)
	r.commits(members.book, behind)
	r.say("log verify finds the data sound", logVerify(o.binary, broker.DataDir))
	if r.broken {
		return errBroken
	}
	return nil
}

// report prints the results.
type report struct{ broken bool }

func (r *report) say(name string, good bool) {
	result := harness.Pass
	if !good {
		result, r.broken = harness.Fail, true
	}
	fmt.Printf("%s,%s\n", name, result)
}

func (r *report) records(o options, known *ledger, total faults) {
	fmt.Fprintf(os.Stderr, "kill9: %d cycles, %d records sent, %d acknowledged, %d seen by the consumer; %+v\n",
		o.cycles, len(known.attempted), len(known.acked), len(known.seen), total)
	for _, err := range known.refused[:min(3, len(known.refused))] {
		fmt.Fprintln(os.Stderr, "kill9: a record was refused:", err)
	}
	r.say("no acknowledged record is lost", total.lost == 0)
	r.say("no acknowledged record is altered", total.altered == 0)
	r.say("no record is duplicated", total.duplicated == 0)
	r.say("no record is out of order", total.reordered == 0)
	r.say("no record was never sent", total.unattempted == 0)
	r.say("no record vanishes that was seen", total.vanished == 0)
	r.say("no offset is missing", total.holes == 0)
	r.say("every record is acknowledged in the end", known.unacknowledged() == 0 && len(known.refused) == 0)
}

func (r *report) commits(book *commitBook, behind error) {
	found := book.found()
	fmt.Fprintf(os.Stderr, "kill9: %s; %+v\n", book, found)
	if behind != nil {
		fmt.Fprintln(os.Stderr, "kill9:", behind)
	}
	r.say("no acknowledged commit is lost", found.lost == 0)
	r.say("no group is where nobody committed", found.future == 0)
	r.say("no generation or member epoch goes back", found.back == 0)
	r.say("no committed record is read again", found.again == 0)
	r.say("every group comes to the end of the log", behind == nil)
}

// logVerify asks the binary's own checker about the data directory.
func logVerify(binary, dataDir string) bool {
	out, err := exec.Command(binary, "log", "verify", dataDir).CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kill9: log verify: %v\n%s\n", err, out)
	}
	return err == nil
}

func (f *faults) add(g faults) {
	f.lost += g.lost
	f.altered += g.altered
	f.duplicated += g.duplicated
	f.reordered += g.reordered
	f.unattempted += g.unattempted
	f.vanished += g.vanished
	f.holes += g.holes
}
