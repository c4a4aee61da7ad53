// Command kafka-import has a broker of Apache Kafka write a data directory, takes it over with `sluice log import`, and compares what clients
// see of both: offsets, log starts, keys, values, headers, timestamps, codecs, producers, leader epochs and where they end, settings and
// committed offsets.
//
// It prints one line a check: its name, a comma, PASS or FAIL. Reasons go to standard error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// timeout bounds the run.
const timeout = 3 * time.Minute

type options struct {
	binary string
	keep   string
}

func main() {
	var o options
	flag.StringVar(&o.binary, "bin", "../bin/sluice", "the broker `binary` under test")
	flag.StringVar(&o.keep, "keep", "", "`directory` that everything is left in (default: a temporary one that is removed)")
	n := flag.Int("partitions", int(partitions), "`partitions` of each topic")
	flag.IntVar(&perBatch, "records", perBatch, "`records` of a batch")
	flag.Bool("short", false, "no effect: there is one size")
	flag.Parse()
	partitions = int32(*n)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka-import:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
