// Command mutate plants realistic bugs, one at a time, in a copy of the module, and sees that the tests notice. A bug that no test notices is a
// hole in the tests. Run it as
//
//	go run ./internal/mutate [-short | -storage] [-run REGEXP]
//
// -short plants only the bugs that a durable broker must never have, -storage those of storage that docs/reliability.md lists. The tests are run as
// `go test ./...` runs them, no longer and no deeper. Exit code 1: a bug survived, or a replacement no longer applies.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:generate go test -run ^TestPage$ -update .

// mutants are all the bugs, a file a subject.
var mutants = slices.Concat(storage, compaction, linear, brokers, imports, groups, throttling, quotas)

func main() {
	short := flag.Bool("short", false, "only the bugs that matter most")
	gate := flag.Bool("storage", false, "only the bugs of storage that docs/reliability.md lists")
	match := flag.String("run", "", "only the bugs whose name matches this expression")
	verbose := flag.Bool("v", false, "show the tests' output")
	flag.Parse()
	wanted, err := regexp.Compile(*match)
	if err != nil {
		fatal(err)
	}
	dir, err := copyModule()
	if err != nil {
		fatal(err)
	}
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool {
		return *short && !m.short || *gate && !m.gate || !wanted.MatchString(m.name)
	})
	begin := time.Now()
	found := tryAll(dir, chosen, *verbose)
	_ = os.RemoveAll(dir)
	fmt.Printf("%d of %d found, %d s\n", found, len(chosen), int(time.Since(begin).Seconds()))
	if found < len(chosen) {
		os.Exit(1)
	}
}

// tryAll plants the bugs in turn and counts those that were found.
func tryAll(dir string, chosen []mutant, verbose bool) (found int) {
	for _, m := range chosen {
		begin := time.Now()
		err := m.try(dir, verbose)
		fmt.Printf("%-9s %5.1f s  %s\n", verdict(err), time.Since(begin).Seconds(), m.name)
		if err != nil {
			fmt.Printf("          %v\n", err)
			continue
		}
		found++
	}
	return found
}

func verdict(err error) string {
	if err != nil {
		return "NOT FOUND"
	}
	return "found"
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "mutate:", err)
	os.Exit(2)
}

// mutant is one bug: in file, the only occurrence of old becomes new, and the tests named must fail.
type mutant struct {
	name     string
	file     string
	old, new string
	pkg      string // of the tests
	tests    string // -run expression
	short    bool   // among those that a durable broker must never have
	gate     bool   // among those of storage that every release must find
}

func (m mutant) try(dir string, verbose bool) error {
	path := filepath.Join(dir, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return fmt.Errorf("the replacement does not apply: %d places in %s read %q", n, m.file, m.old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return err
	}
	defer os.WriteFile(path, source, 0o600)
	out, failed := m.test(dir)
	if verbose {
		fmt.Print(out)
	}
	switch {
	case strings.Contains(out, "[build failed]"):
		return fmt.Errorf("the mutant does not compile: %s", out)
	case !failed:
		return fmt.Errorf("go test -run %q %s passes", m.tests, m.pkg)
	}
	return nil
}

// testTimeout is when tests count as hung: many times what the slowest of them take on two busy cores, so that slowness is not taken for a find.
const testTimeout = 10 * time.Minute

// test runs the tests and tells whether they failed. A hang is a failure too.
func (m mutant) test(dir string) (string, bool) {
	cmd := exec.Command("go", "test", "-trimpath", "-failfast", "-vet=off", "-timeout="+testTimeout.String(), "-run", m.tests, m.pkg)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}

// copyModule copies what tests need to a folder outside the module.
func copyModule() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(string(bytes.TrimSpace(out)))
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	return dir, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && name != ".":
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o700)
		case !wantedFile(name):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), data, 0o600)
	})
}

func wantedFile(name string) bool {
	base := filepath.Base(name)
	return strings.HasSuffix(base, ".go") || strings.HasPrefix(base, "go.") || strings.Contains(name, "testdata")
}
