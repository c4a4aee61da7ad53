package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// outputFlag chooses between a table for people and JSON for programs.
type outputFlag struct {
	Output string `short:"o" enum:"table,json" default:"table" env:"SLUICE_OUTPUT" placeholder:"table|json" help:"How to print: table or json."`
}

// print writes v as indented JSON, or calls table with a writer that aligns tab-separated columns.
func (f outputFlag) print(w io.Writer, v any, table func(io.Writer)) error {
	if f.Output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table(tw)
	return tw.Flush()
}

// row writes one line of a table.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = printable(fmt.Sprint(c))
	}
	fmt.Fprintln(w, strings.Join(texts, "\t"))
}

// printable is a text as it is, or quoted if it has characters that would break the line or drive the terminal: the names of groups and clients may
// hold anything.
func printable(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}

// byteCount prints n bytes in the largest binary unit that keeps it at one or more: 1536 is "1.5 KiB".
func byteCount(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), -1
	for value >= 1024 && unit < len(byteUnits)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, byteUnits[unit])
}

const byteUnits = "KMGTPE"
