package harness

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Result is what a runner says about one check.
type Result string

// A runner writes one line a check: its name, a comma, and one of these.
const (
	Pass Result = "PASS"
	Fail Result = "FAIL"
	Skip Result = "SKIP"
)

// ParseResults reads the lines of a runner. Lines of another form are errors: a runner that prints something else has
// lost its way.
func ParseResults(r io.Reader) (map[string]Result, error) {
	results := map[string]Result{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		comma := strings.LastIndexByte(lines.Text(), ',')
		if comma < 0 {
			return results, fmt.Errorf("the runner printed %q", lines.Text())
		}
		name, result := lines.Text()[:comma], Result(lines.Text()[comma+1:])
		if result != Pass && result != Fail && result != Skip {
			return results, fmt.Errorf("the runner printed %q", lines.Text())
		}
		if _, twice := results[name]; twice {
			return results, fmt.Errorf("the runner printed %q twice", name)
		}
		results[name] = result
	}
	return results, lines.Err()
}

// ReadAllowList reads the names that must pass, one a line; a number sign begins a comment line.
func ReadAllowList(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names[line] = true
		}
	}
	return names, nil
}

// Verdict compares the results of a runner with its allow list.
type Verdict struct {
	Passed, Failed, Skipped int
	Broken                  []string // must pass, and failed, was skipped or did not run
	News                    []string // passes, and is not on the list yet
}

// Judge counts results and finds what the allow list does not allow.
func Judge(results map[string]Result, mustPass map[string]bool) Verdict {
	var v Verdict
	for name, result := range results {
		switch result {
		case Pass:
			v.Passed++
			if !mustPass[name] {
				v.News = append(v.News, name)
			}
		case Fail:
			v.Failed++
		case Skip:
			v.Skipped++
		}
		if mustPass[name] && result != Pass {
			v.Broken = append(v.Broken, name)
		}
	}
	for name := range mustPass {
		if _, ran := results[name]; !ran {
			v.Failed++
			v.Broken = append(v.Broken, name+" (did not run)")
		}
	}
	slices.Sort(v.Broken)
	slices.Sort(v.News)
	return v
}
