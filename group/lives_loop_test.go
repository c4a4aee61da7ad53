package group

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var oneLife = flag.Uint64("life", 0, "play only the random life of this number")

// eachLife plays random lives, on all cores: 10,000 of them, or fewer in short mode. SLUICE_LIVES=N says how many, SLUICE_LIVES=FROM-TO which;
// -life N plays the one that failed.
func eachLife(t *testing.T, short uint64, play func(t testing.TB, seed uint64)) {
	first, last := wantedLives(t, short)
	var next atomic.Uint64
	next.Store(first)
	began := time.Now()
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for seed := next.Add(1) - 1; seed <= last && !t.Failed(); seed = next.Add(1) - 1 {
				playOne(t, seed, play)
			}
		})
	}
	players.Wait()
	n := last - first + 1
	t.Logf("lives %d to %d, %.0f a second", first, last, float64(n)/time.Since(began).Seconds())
}

func wantedLives(t *testing.T, short uint64) (first, last uint64) {
	text := os.Getenv("SLUICE_LIVES")
	switch {
	case *oneLife != 0:
		return *oneLife, *oneLife
	case text == "" && testing.Short():
		return 1, short
	case text == "":
		return 1, 10_000
	}
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		from, to = "1", text
	}
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLUICE_LIVES: %v", err)
		}
		return n
	}
	return number(from), number(to)
}

// playOne names the life that fails.
func playOne(t *testing.T, seed uint64, play func(t testing.TB, seed uint64)) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case lifeFailure:
			t.Errorf("life %d: %s", seed, p)
		default:
			t.Errorf("life %d: panic: %v\n%s", seed, p, debug.Stack())
		}
	}()
	play(lifeTB{t}, seed)
}

// lifeTB ends a life that fails, and not the test's goroutine, which it does not run on.
type lifeTB struct{ testing.TB }

type lifeFailure string

func (l lifeTB) Fatalf(format string, args ...any) { panic(lifeFailure(fmt.Sprintf(format, args...))) }
func (l lifeTB) Fatal(args ...any)                 { panic(lifeFailure(fmt.Sprint(args...))) }
func (l lifeTB) Helper()                           {}
