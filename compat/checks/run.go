package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// checkTimeout bounds one check; they take milliseconds unless something hangs.
const checkTimeout = 30 * time.Second

// check is one thing that must work. Its topic is a name that nothing else uses.
type check struct {
	name string
	run  func(ctx context.Context, c Client, topic string) error
}

// Run runs all checks with a client and writes one line each: its name, a comma, and PASS, FAIL or SKIP. Reasons go to
// why. Only checks whose name contains filter are run.
func Run(ctx context.Context, c Client, out, why io.Writer, filter string) {
	run := fmt.Sprintf("%08x", rand.Uint32())
	for i, k := range all() {
		if !strings.Contains(k.name, filter) {
			continue
		}
		result := "PASS"
		err := runOne(ctx, c, k, fmt.Sprintf("check-%s-%d", run, i))
		switch {
		case errors.Is(err, ErrUnsupported):
			result = "SKIP"
		case err != nil:
			result = "FAIL"
			fmt.Fprintf(why, "%s: %v\n", k.name, err)
		}
		fmt.Fprintf(out, "%s,%s\n", k.name, result)
	}
}

func runOne(ctx context.Context, c Client, k check, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return k.run(ctx, c, topic)
}
