package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sluice/config"
)

// What cannot be in force stops the broker before it serves, with a message that names it.
func TestServeRefusesSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		args []string
		want []string // parts of standard error
	}{
		"both ways of counting in the file": {
			file: "preciseDispatcherFlowControl=true\ndispatch.throttling.on.batch.message.enabled=true\n",
			want: []string{"dispatch.throttling.precise.flow.control", "preciseDispatcherFlowControl", "dispatch.throttling.on.batch.message.enabled", "dispatchThrottlingOnBatchMessageEnabled", "exclude each other"},
		},
		"one in the file and one by --set": {
			file: "dispatchThrottlingOnBatchMessageEnabled=true\n", args: []string{"--set", "preciseDispatcherFlowControl=true"},
			want: []string{"dispatch.throttling.precise.flow.control", "dispatch.throttling.on.batch.message.enabled"},
		},
		"a setting by two names": {
			file: "ratePeriodInSecond=2\ndispatch.throttling.rate.period.seconds=2\n",
			want: []string{"ratePeriodInSecond", "dispatch.throttling.rate.period.seconds", "give it once"},
		},
		"no rate":                 {file: "dispatchThrottlingRateInMsg=fast\n", want: []string{"dispatch.throttling.rate.in.msg", "whole number"}},
		"a namespace in the file": {file: "namespace.a.dispatch.throttling.rate.in.msg=1\n", want: []string{"BROKER resource with the empty name"}},
		"a group's session out of bounds": {
			file: "group.consumer.session.timeout.ms=1000\n", want: []string{"group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := serveWith(t, t.Context(), tc.file, tc.args...)
			if r.code == exitOK {
				t.Error("it served")
			}
			for _, part := range tc.want {
				if !strings.Contains(r.err, part) {
					t.Errorf("%q does not contain %q", r.err, part)
				}
			}
		})
	}
}

// An address that cannot be had stops the broker with a sentence that says what to do.
func TestServeRefusesAddresses(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tc := range map[string]struct {
		args []string
		want []string // parts of standard error
	}{
		"taken":             {[]string{"--listen", taken.Addr().String()}, []string{taken.Addr().String(), "in use by another process", "choose another address for Kafka clients"}},
		"taken, admin":      {[]string{"--admin-listen", taken.Addr().String()}, []string{"in use by another process", "the admin port"}},
		"of others":         {[]string{"--listen", "192.0.2.1:0", "--insecure"}, []string{"192.0.2.1:0 is no address of this machine"}},
		"open to others":    {[]string{"--listen", "0.0.0.0:0"}, []string{"--insecure"}},
		"not host and port": {[]string{"--listen", "9092"}, []string{"host:port"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := serveWith(t, t.Context(), "", tc.args...)
			if r.code == exitOK {
				t.Error("it served")
			}
			for _, part := range tc.want {
				if !strings.Contains(r.err, part) {
					t.Errorf("%q does not contain %q", r.err, part)
				}
			}
		})
	}
}

// serveWith serves with a settings file until ctx ends.
func serveWith(t *testing.T, ctx context.Context, file string, args ...string) result {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	args = append([]string{"serve", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--config", path}, args...)
	code := run(ctx, args, &streams{in: strings.NewReader(""), out: &out, err: &errs})
	return result{out.String(), errs.String(), code}
}

// The names of the specification of dispatch throttling are as good as ours, and the later source wins whichever it uses.
func TestServeTakesAliases(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it stops as soon as it is ready
	r := serveWith(t, ctx, "dispatchThrottlingRateInMsg=10\nratePeriodInSecond=60\n", "--set", "dispatch.throttling.rate.in.msg=20", "--set", "dispatchThrottlingRateInByte=5")
	if r.code != exitOK || strings.Contains(r.err, "no effect") {
		t.Errorf("code %d: %s", r.code, r.err)
	}
}

func TestServeMergesSettingsByName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(path, []byte("dispatchThrottlingRateInMsg=10\nratePeriodInSecond=60\nnum.partitions=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	logger, err := newLogger(&strings.Builder{}, "error", "text")
	if err != nil {
		t.Fatal(err)
	}
	c := serveCmd{Config: path, Set: []string{"dispatch.throttling.rate.in.msg=20", "dispatchThrottlingRateInByte=5"}}
	got, err := c.settings([]string{"SLUICE_RATEPERIODINSECOND=30"}, logger)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"dispatch.throttling.rate.in.msg": "20", "dispatch.throttling.rate.in.byte": "5", "dispatch.throttling.rate.period.seconds": "30", "num.partitions": "2",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}
}

// A shell may hold the variables of every command when it starts a broker.
func TestServeTakesTheVariablesOfAllCommands(t *testing.T) {
	var commands []*kong.Node
	for next := []*kong.Node{kong.Must(&rootCmd{}, kong.Name("sluice")).Model.Node}; len(next) > 0; next = next[1:] {
		commands = append(commands, next[0])
		next = append(next, next[0].Children...)
	}
	for _, command := range commands {
		for _, flag := range command.Flags {
			for _, name := range flag.Envs {
				if got, err := config.FromEnviron([]string{name + "=x"}); err != nil || len(got) > 0 {
					t.Errorf("%s of %s: settings %v, %v", name, command.Path(), got, err)
				}
			}
		}
	}
}
