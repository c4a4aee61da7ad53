package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// result is what a command left behind.
type result struct {
	out, err string
	code     int
}

// sluice runs one command with the given standard input.
func sluice(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, &streams{in: strings.NewReader(stdin), out: &out, err: &errs})
	return result{out.String(), errs.String(), code}
}

// must is sluice for a command that has to succeed.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	r := sluice(t, stdin, args...)
	if r.code != exitOK {
		t.Fatalf("sluice %q: exit code %d\n%s", args, r.code, r.err)
	}
	return r.out
}

// startBroker starts franz-go's fake broker with Kafka's default of one partition and points the commands at it.
func startBroker(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	t.Setenv("SLUICE_BOOTSTRAP_SERVER", cluster.ListenAddrs()[0])
	return cluster
}

func TestHelpExitsWithZero(t *testing.T) {
	for _, args := range [][]string{{}, {"help"}, {"help", "topic", "create"}, {"--help"}, {"topic", "create", "--help"}, {"produce", "--help"}, {"consume", "--help"}, {"group", "reset-offsets", "--help"}, {"log", "import", "--help"}, {"quota", "--help"}, {"quota", "set", "--help"}} {
		r := sluice(t, "", args...)
		if r.code != exitOK || !strings.Contains(r.out, "Usage: sluice") || r.err != "" {
			t.Errorf("%q: code %d, out %q, err %q", args, r.code, r.out, r.err)
		}
		if strings.Contains(r.out, "${") {
			t.Errorf("%q: help with a variable that was not filled in:\n%s", args, r.out)
		}
	}
}

func TestVersion(t *testing.T) {
	if out := must(t, "", "version"); !strings.HasPrefix(out, "sluice ") {
		t.Errorf("version printed %q", out)
	}
}

func TestUsageErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string // a part of standard error
	}{
		"unknown command":          {[]string{"frobnicate"}, "See: sluice --help"},
		"missing topic":            {[]string{"topic", "create"}, "See: sluice topic create --help"},
		"no partitions":            {[]string{"topic", "create", "t", "--partitions", "0"}, "--partitions"},
		"config without value":     {[]string{"topic", "create", "t", "--config", "retention.ms"}, "KEY=VALUE"},
		"nothing to alter":         {[]string{"topic", "alter", "t"}, "nothing to alter"},
		"unknown output":           {[]string{"topic", "list", "-o", "yaml"}, "table"},
		"unknown codec":            {[]string{"produce", "t", "--codec", "brotli"}, "zstd"},
		"idempotence with acks 1":  {[]string{"produce", "t", "--acks", "1", "--idempotence"}, "--acks all"},
		"two sources":              {[]string{"produce", "t", "--file", "main_test.go", "--file-per-record", "."}, "--file"},
		"files that do not exist":  {[]string{"produce", "t", "--file", "no/such/file"}, "no/such/file"},
		"delimiter for whole file": {[]string{"produce", "t", "--file-per-record", ".", "-K", ":"}, "path is the key"},
		"unlimited record":         {[]string{"produce", "t", "--max-bytes", "0"}, "--max-bytes"},
		"bad position":             {[]string{"consume", "t", "--from", "middle"}, "beginning"},
		"bad time":                 {[]string{"consume", "t", "--from-time", "yesterday"}, "1970"},
		"two positions":            {[]string{"consume", "t", "--from", "5", "--from-time", "2026-01-02"}, "exclude each other"},
		"bad limit":                {[]string{"consume", "t", "--until", "-3"}, "forever"},
		"bad verb":                 {[]string{"consume", "t", "--format", "%q"}, "%q"},
		"negative count":           {[]string{"consume", "t", "--count", "-1"}, "--count"},
		"group and partition":      {[]string{"consume", "t", "--group", "g", "-p", "0"}, "exclude each other"},
		"group and offset":         {[]string{"consume", "t", "--group", "g", "--from", "5"}, "reset-offsets"},
		"group and time":           {[]string{"consume", "t", "--group", "g", "--from-time", "0"}, "reset-offsets"},
		"group until an offset":    {[]string{"consume", "t", "--group", "g", "--until", "5"}, "--until"},
		"unknown state":            {[]string{"group", "list", "--state", "idle"}, "Empty"},
		"unknown type":             {[]string{"group", "list", "--type", "old"}, "classic"},
		"reset to nowhere":         {[]string{"group", "reset-offsets", "g", "--topic", "t"}, "--to-earliest"},
		"reset to two places":      {[]string{"group", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--shift-by", "1"}, "--shift-by"},
		"reset of nothing":         {[]string{"group", "reset-offsets", "g", "--to-earliest"}, "--all-topics"},
		"reset of all and one":     {[]string{"group", "reset-offsets", "g", "--to-earliest", "--topic", "t", "--all-topics"}, "either"},
		"reset before the first":   {[]string{"group", "reset-offsets", "g", "--topic", "t", "--to-offset", "-1"}, "--to-offset"},
		"reset by no duration":     {[]string{"group", "reset-offsets", "g", "--topic", "t", "--by-duration", "1y"}, "P1DT2H"},
		"reset from no file":       {[]string{"group", "reset-offsets", "g", "--from-file", "no/such/file"}, "no/such/file"},
		"reset from file of code":  {[]string{"group", "reset-offsets", "g", "--from-file", "main_test.go"}, "line 1"},
		"dry run and execute":      {[]string{"group", "reset-offsets", "g", "--topic", "t", "--to-latest", "--dry-run", "--execute"}, "--execute"},
		"delete no offsets":        {[]string{"group", "delete-offsets", "g"}, "--all-topics"},
		"bad partitions":           {[]string{"group", "delete-offsets", "g", "--topic", "t:x"}, "TOPIC:P"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := sluice(t, "", tc.args...)
			if r.code != exitUsage || !strings.Contains(r.err, tc.want) || r.out != "" {
				t.Errorf("code %d, out %q, err %q; want code 2 and %q", r.code, r.out, r.err, tc.want)
			}
		})
	}
}

func TestUnreachableBrokerNamesAddressAndServe(t *testing.T) {
	commands := [][]string{
		{"topic", "create", "t"}, {"topic", "list"}, {"topic", "describe", "t"}, {"topic", "alter", "t", "-p", "2"},
		{"topic", "delete", "t"}, {"produce", "t"}, {"consume", "t"}, {"consume", "t", "-g", "g"},
		{"group", "list"}, {"group", "describe", "g"}, {"group", "reset-offsets", "g", "--topic", "t", "--to-latest"},
		{"group", "delete", "g"}, {"group", "delete-offsets", "g", "--topic", "t"},
		{"quota", "set", "--user", "u", "--producer-byte-rate", "1"}, {"quota", "unset", "--user", "u"}, {"quota", "list"},
	}
	for _, args := range commands {
		r := sluice(t, "", append(args, "--bootstrap-server", "127.0.0.1:1")...)
		if r.code != exitFailed || !strings.Contains(r.err, "127.0.0.1:1") || !strings.Contains(r.err, "sluice serve") {
			t.Errorf("%q: code %d, err %q", args, r.code, r.err)
		}
	}
}

func TestReportUsesTheErrorsOwnExitCode(t *testing.T) {
	var out bytes.Buffer
	if code := report(&out, usagef("wrong %d", 1), "sluice x --help"); code != exitUsage {
		t.Errorf("code %d", code)
	}
	if want := "sluice: wrong 1\nSee: sluice x --help\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if code := report(&out, nil, ""); code != exitOK {
		t.Errorf("no error gave code %d", code)
	}
	if code := report(&out, context.Canceled, ""); code != exitFailed {
		t.Errorf("a plain error gave code %d", code)
	}
}
