package main

import (
	"os"
	"strings"
	"testing"
)

// TestPageShowsTheOutput: docs/groups.md holds what the example prints.
func TestPageShowsTheOutput(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, ""); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../groups.md")
	if err != nil {
		t.Fatal(err)
	}
	indented := "\n    " + strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\n", "\n    ") + "\n\n"
	if !strings.Contains(string(page), indented) {
		t.Errorf("docs/groups.md does not show this output:\n%s", out.String())
	}
}
