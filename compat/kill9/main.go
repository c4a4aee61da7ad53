// Command kill9 kills a broker with SIGKILL again and again while idempotent producers write with acks=all, and checks
// after every restart that what the broker promised is there: each acknowledged record at its offset with its bytes,
// nothing twice, nothing out of order, nothing that nobody sent, and nothing gone that a consumer has seen.
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
	broker, err := harness.Start(o.binary, dir, "--set", "sluice.durability="+o.durability)
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
	random := rand.New(rand.NewPCG(o.seed, 1<<32))
	var total faults
	for cycle := 1; cycle <= o.cycles; cycle++ {
		if err := killUnderLoad(broker, work, random); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle, err)
		}
		found, err := verify(broker.Address, known)
		if err != nil {
			return fmt.Errorf("cycle %d: %w\n%s", cycle, err, broker.LogTail())
		}
		if found != (faults{}) {
			fmt.Fprintf(os.Stderr, "kill9: cycle %d: %+v\n", cycle, found)
			total.add(found)
		}
	}
	return finish(o, broker, work, known, total)
}

// killUnderLoad opens the gate, kills the broker after a random time, sometimes kills it again while it recovers, and
// starts it for good. The gate is closed at the end.
func killUnderLoad(broker *harness.Broker, work *load, random *rand.Rand) error {
	work.gate.Unlock()
	defer work.gate.Lock()
	time.Sleep(time.Duration(50+random.IntN(350)) * time.Millisecond)
	if err := broker.Kill(); err != nil {
		return err
	}
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

// verify compares the log with everything that was promised until now.
func verify(address string, known *ledger) (faults, error) {
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	promised := known.promises()
	logs, err := readLogs(ctx, address)
	if err != nil {
		return faults{}, err
	}
	return known.check(logs, promised), nil
}

// finish lets every record be acknowledged, checks once more, stops the broker and prints the results.
func finish(o options, broker *harness.Broker, work *load, known *ledger, total faults) error {
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	if err := work.flush(ctx); err != nil {
		return err
	}
	found, err := verify(broker.Address, known)
	if err != nil {
		return err
	}
	total.add(found)
	work.close()
	if err := broker.Stop(); err != nil {
		return err
	}
	missing := known.unacknowledged()
	fmt.Fprintf(os.Stderr, "kill9: %d cycles, %d records sent, %d acknowledged, %d seen by the consumer; %+v\n",
		o.cycles, len(known.attempted), len(known.acked), len(known.seen), total)
	for _, err := range known.refused[:min(3, len(known.refused))] {
		fmt.Fprintln(os.Stderr, "kill9: a record was refused:", err)
	}
	ok := true
	report := func(name string, good bool) {
		result := harness.Pass
		if !good {
			result, ok = harness.Fail, false
		}
		fmt.Printf("%s,%s\n", name, result)
	}
	report("no acknowledged record is lost", total.lost == 0)
	report("no acknowledged record is altered", total.altered == 0)
	report("no record is duplicated", total.duplicated == 0)
	report("no record is out of order", total.reordered == 0)
	report("no record was never sent", total.unattempted == 0)
	report("no record vanishes that was seen", total.vanished == 0)
	report("no offset is missing", total.holes == 0)
	report("every record is acknowledged in the end", missing == 0 && len(known.refused) == 0)
	report("log verify finds the data sound", logVerify(o.binary, broker.DataDir))
	if !ok {
		return errBroken
	}
	return nil
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
