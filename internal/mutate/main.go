// Command mutate plants realistic bugs, one at a time, in a copy of the module, and sees that the tests notice. A bug that no test notices is a
// hole in the tests. Run it as
//
//	go run ./internal/mutate [-short] [-run REGEXP]
//
// -short plants only the bugs that a durable broker must never have. Exit code 1: a bug survived, or a replacement no longer applies.
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

func main() {
	short := flag.Bool("short", false, "only the bugs that matter most")
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
	survived := 0
	for _, m := range slices.Concat(mutants, compaction, throttling) {
		if *short && !m.short || !wanted.MatchString(m.name) {
			continue
		}
		begin := time.Now()
		err := m.try(dir, *verbose)
		fmt.Printf("%-9s %5.1f s  %s\n", verdict(err), time.Since(begin).Seconds(), m.name)
		if err != nil {
			fmt.Printf("          %v\n", err)
			survived++
		}
	}
	_ = os.RemoveAll(dir)
	if survived > 0 {
		os.Exit(1)
	}
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
	short    bool
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

// test runs the tests and tells whether they failed. A hang is a failure too.
func (m mutant) test(dir string) (string, bool) {
	cmd := exec.Command("go", "test", "-trimpath", "-failfast", "-vet=off", "-timeout=60s", "-run", m.tests, m.pkg)
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
