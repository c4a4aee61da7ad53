package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/template"
)

// docs/config.md is written by a test, so that the program does not carry it:
//
//	go test ./config -run TestDocs -rewrite
var rewrite = flag.Bool("rewrite", false, "write docs/config.md anew from the rows")

const docsPath = "../docs/config.md"

func TestDocs(t *testing.T) {
	page := template.Must(template.New("config.md.tmpl").Funcs(docsFuncs).ParseFiles("testdata/config.md.tmpl"))
	var want bytes.Buffer
	if err := page.Execute(&want, nil); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(docsPath, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/config.md is not what the rows say; run: go test ./config -run TestDocs -rewrite")
	}
}

var docsFuncs = template.FuncMap{
	"flags":         func() []string { return notSettings },
	"testPrefix":    func() string { return testPrefix },
	"codes":         func(keys []string) string { return "`" + strings.Join(keys, "`, `") + "`" },
	"table":         docsTable,
	"maxNamespaces": func() int { return maxNamespaces },
	"exceptions":    docsExceptions,
	"foreign":       docsForeign,
}

func docsTable(name string) string {
	var b strings.Builder
	b.WriteString("| setting | type | default | allowed | change | meaning |\n|---|---|---|---|---|---|\n")
	for _, scope := range allScopes {
		if scope.String() != name {
			continue
		}
		for _, r := range settings.inOrder(scope) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
				nameCell(r), r.kind, defaultCell(r), strings.TrimPrefix(r.allow.want, "of "), changeCell(r), meaningCell(r))
		}
	}
	return b.String()
}

func nameCell(r *row) string {
	cell := "`" + r.name + "`"
	for _, alias := range r.aliases {
		cell += "<br>also `" + alias + "`"
	}
	for _, f := range r.fallback {
		cell += "<br>broker: `" + f.name + "`"
	}
	if r.stands != "" {
		cell += "<br>broker: `" + r.stands + "`"
	}
	return cell
}

func defaultCell(r *row) string {
	switch {
	case r.unset:
		return "not set"
	case r.def == "":
		return "empty"
	}
	return "`" + r.def + "`"
}

func changeCell(r *row) string {
	switch {
	case r.stated != "":
		return "never"
	case r.live:
		return "live"
	}
	return "restart"
}

func meaningCell(r *row) string {
	switch {
	case r.stated != "":
		return fmt.Sprintf("%s Not to be set: %s.", r.doc, r.stated)
	case !r.hasEffect():
		return "*(no effect)* " + r.doc
	}
	return r.doc
}

func docsExceptions() string {
	var b strings.Builder
	b.WriteString("| setting | Kafka | sluice | why |\n|---|---|---|---|\n")
	for _, scope := range allScopes {
		for _, r := range settings.inOrder(scope) {
			if r.kafka != "" {
				fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", r.name, r.kafka, defaultCell(r), r.why)
			}
		}
	}
	return b.String()
}

type docsReason struct {
	Why  string
	Keys []string
}

func docsForeign() []docsReason {
	var reasons []docsReason
	for _, f := range foreign {
		keys := append([]string{}, f.keys...)
		for _, prefix := range f.prefixes {
			keys = append(keys, prefix+"*")
		}
		reasons = append(reasons, docsReason{strings.ToUpper(f.why[:1]) + f.why[1:], keys})
	}
	return reasons
}
