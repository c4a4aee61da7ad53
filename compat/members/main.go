package members

import (
	"flag"
	"fmt"
	"os"
)

// Options are the flags that the runners with members have in common.
type Options struct {
	Binary string // the broker under test
	Short  bool
}

// Main is the main function of a runner, which may also be asked to be a member of a Go library. The runner's own flags are declared before.
func Main(name, short string, run func(Options) error) {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "member" {
		name, err = "member", Run(os.Args[2:])
	} else {
		var o Options
		flag.StringVar(&o.Binary, "bin", "../bin/sluice", "the broker `binary` under test")
		flag.BoolVar(&o.Short, "short", false, short)
		flag.Parse()
		err = run(o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
