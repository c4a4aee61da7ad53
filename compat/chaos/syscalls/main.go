// Command syscalls kills a broker at every system call by which it changes files or answers, or has such calls fail, and looks at what is left.
//
//	syscalls                      kill at each stride-th call of each kind
//	syscalls -inject EIO,ENOSPC   have calls fail instead, once and for good
//	syscalls -times 2             the same with a scenario that produces twice as often
//	syscalls -short               both, with so few points that it takes less than a minute
//
// The scenario is in script.go, what must hold is in check.go. Nothing of a page cache is lost by a kill: power cuts are tested elsewhere.
package main

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/compat/chaos/ptrace"
)

// calls are what is watched: the kinds of calls that change the disk, and write, by which replies leave.
var calls = []string{"write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "mkdir"}

type options struct {
	bin, dir, calls, inject string
	stride, only, points    int
	times                   int
	seed                    uint64
	budget                  time.Duration
	workers                 int
	short, sticky, keep     bool
	verbose                 bool
}

func main() {
	ptrace.Init()
	var o options
	flag.StringVar(&o.bin, "bin", "bin/sluice", "the broker's binary")
	flag.StringVar(&o.dir, "dir", defaultDir(), "where data directories are made; memory is fine, since a kill loses nothing of a file system")
	flag.StringVar(&o.calls, "calls", strings.Join(calls, ","), "calls to kill or fail at")
	flag.StringVar(&o.inject, "inject", "", "errors to have calls fail with (EIO, ENOSPC) instead of a kill")
	flag.IntVar(&o.stride, "stride", 1, "kill at each stride-th call")
	flag.IntVar(&o.points, "points", 25, "with -inject: at most so many calls of a kind, for each error, once and for good")
	flag.IntVar(&o.only, "only", 0, "only at this call")
	flag.IntVar(&o.times, "times", 1, "how often the scenario plays each of its rounds of produce requests")
	flag.BoolVar(&o.sticky, "sticky", false, "with -inject and -only: every call from then on")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the records and of the first point")
	flag.DurationVar(&o.budget, "budget", 0, "time for all; the stride grows to keep it (0: no limit)")
	flag.IntVar(&o.workers, "workers", 2*runtime.NumCPU(), "brokers at the same time; they spend much of their time waiting")
	flag.BoolVar(&o.short, "short", false, "a sample of both kinds within a minute")
	flag.BoolVar(&o.keep, "keep", false, "keep the directories of violations")
	flag.BoolVar(&o.verbose, "v", false, "print every point")
	flag.Parse()
	os.Exit(o.main())
}

// defaultDir is in memory where there is such a file system: syncs cost nothing there, and are counted all the same.
func defaultDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

func (o *options) main() int {
	fmt.Printf("seed %d\n", o.seed)
	r := &runner{bin: o.bin, dir: o.dir, times: o.times, keep: o.keep, verify: verifies(o.bin)}
	if !r.verify {
		fmt.Println("sluice log verify is not there: files are not verified")
	}
	started := time.Now()
	counted, err := r.run(point{action: actionCount}, o.seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "syscalls:", err)
		return 1
	}
	if len(counted.problems) > 0 {
		fmt.Println("violations without any injection:\n  " + strings.Join(counted.problems, "\n  "))
		fmt.Println("0 passed, 1 failed, 0 skipped")
		return 1
	}
	s := sweep{options: o, runner: r, counts: counted.counts, cost: time.Since(started), tallies: map[string]*tally{}}
	s.do(s.plan())
	return s.report()
}

// sweep does many points.
type sweep struct {
	*options
	*runner
	counts map[string]int // calls of an uninjected run
	cost   time.Duration  // of one

	mu      sync.Mutex
	tallies map[string]*tally // by action and call
}

// tally is a row of the report.
type tally struct {
	points, missed, violations, healed, sticky int
	took                                       time.Duration
}

// Short runs: this much of the time for kills, the rest for errors.
const (
	shortBudget      = 40 * time.Second
	shortKillShare   = 0.6
	shortErrorPoints = 2
	leastPerCall     = 6 // points of a kind of call, however large the stride
)

// plan lists the points.
func (s *sweep) plan() []point {
	if s.only > 0 {
		p := point{call: s.calls, n: s.only, action: actionKill, sticky: s.sticky}
		if s.inject != "" {
			p.action = s.inject
		}
		return []point{p}
	}
	switch {
	case s.short:
		s.budget, s.points = shortBudget, shortErrorPoints
		s.stride = s.strideFor(time.Duration(float64(shortBudget) * shortKillShare))
		return slices.Concat(s.kills(), s.errors("EIO,ENOSPC"))
	case s.inject != "":
		return s.errors(s.inject)
	}
	if s.budget > 0 {
		s.stride = max(s.stride, s.strideFor(s.budget))
	}
	return s.kills()
}

// strideFor is the stride with which all calls fit into the time.
func (s *sweep) strideFor(d time.Duration) int {
	total := 0
	for _, c := range strings.Split(s.calls, ",") {
		total += s.counts[c]
	}
	return int(time.Duration(total)*s.cost/(time.Duration(runtime.NumCPU())*d)) + 1
}

func (s *sweep) kills() []point {
	var ps []point
	for _, c := range strings.Split(s.calls, ",") {
		stride := max(1, min(s.stride, s.counts[c]/leastPerCall))
		for n := 1 + int(s.seed%uint64(stride)); n <= s.counts[c]; n += stride {
			ps = append(ps, point{call: c, n: n, action: actionKill})
		}
		fmt.Printf("%-10s %5d calls, stride %d\n", c, s.counts[c], stride)
	}
	return ps
}

func (s *sweep) errors(names string) []point {
	var ps []point
	for _, c := range strings.Split(s.calls, ",") {
		if c == "write" {
			continue // replies: a socket has no such errors
		}
		for _, e := range strings.Split(names, ",") {
			for _, sticky := range []bool{false, true} {
				for i := range min(s.points, s.counts[c]) {
					at := (float64(i) + float64(s.seed%97)/97) / float64(min(s.points, s.counts[c]))
					ps = append(ps, point{c, 1 + int(at*float64(s.counts[c])), e, sticky})
				}
			}
		}
	}
	// In any order, so that a budget that ends early has cut each kind a little.
	rand.New(rand.NewPCG(s.seed, 2)).Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	return ps
}

// do runs the points, several at a time. A point that finds no time is skipped.
func (s *sweep) do(points []point) {
	deadline := time.Now().Add(s.budget)
	work := make(chan point)
	var wg sync.WaitGroup
	for range s.workers {
		wg.Go(func() {
			for p := range work {
				s.one(p)
			}
		})
	}
	for _, p := range points {
		if s.budget > 0 && time.Now().After(deadline) {
			s.row(p).missed++
			continue
		}
		work <- p
	}
	close(work)
	wg.Wait()
}

func (s *sweep) one(p point) {
	began := time.Now()
	out, err := s.run(p, s.seed)
	if err != nil {
		out.problems = append(out.problems, "the test itself failed: "+err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.rowLocked(p)
	t.took += time.Since(began)
	if s.verbose {
		fmt.Printf("%v (%s), stuck without a restart: %v\n", p, out.hit, out.stuck)
	}
	if len(out.problems) > 0 {
		t.violations++
		fmt.Printf("VIOLATION %v (%s)\n  again: %s\n", p, out.hit, p.hint(s.seed, s.options.times))
		for _, problem := range out.problems {
			fmt.Println("  " + problem)
		}
		return
	}
	if out.hit == "" {
		t.missed++ // this run made fewer calls than the one that was counted
		return
	}
	t.points++
	if p.sticky {
		t.sticky++
		if out.healed {
			t.healed++
		}
	}
}

func (s *sweep) row(p point) *tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rowLocked(p)
}

func (s *sweep) rowLocked(p point) *tally {
	name := p.action + " at " + p.call
	if s.tallies[name] == nil {
		s.tallies[name] = &tally{}
	}
	return s.tallies[name]
}

// report prints a row for each call and action, and the sum. The result is the exit status.
func (s *sweep) report() int {
	fmt.Printf("%-20s %7s %8s %11s %8s\n", "action and call", "points", "skipped", "violations", "seconds")
	var sum tally
	for _, name := range slices.Sorted(maps.Keys(s.tallies)) {
		t := s.tallies[name]
		fmt.Printf("%-20s %7d %8d %11d %8.1f", name, t.points, t.missed, t.violations, t.took.Seconds())
		if t.sticky > 0 {
			fmt.Printf("   %d of %d lasting errors left a broker that went on without a restart", t.healed, t.sticky)
		}
		fmt.Println()
		sum.points, sum.missed, sum.violations = sum.points+t.points, sum.missed+t.missed, sum.violations+t.violations
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", sum.points, sum.violations, sum.missed)
	if sum.violations > 0 {
		return 1
	}
	return 0
}
