package config

import (
	"maps"
	"strings"
	"testing"
)

func TestFromEnviron(t *testing.T) {
	got, err := FromEnviron([]string{
		"PATH=/bin", "SLUICE_LOG_SEGMENT_BYTES=2097152", "SLUICE_DURABILITY=os", "SLUICE_NODE_ID=", "SLUICE_NUM_IO_THREADS=a=b",
		"SLUICE_RATEPERIODINSECOND=60", "SLUICE_BOOTSTRAP_SERVER=x:1", "SLUICE_DATA_DIR=/d", "SLUICE_TEST_SEED=1", "sluice_listen=1", "SLUICE=1",
	})
	want := map[string]string{"log.segment.bytes": "2097152", "sluice.durability": "os", "node.id": "", "num.io.threads": "a=b", "dispatch.throttling.rate.period.seconds": "60"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestFromEnvironErrors(t *testing.T) {
	for variable, near := range map[string]string{
		"SLUICE_LOG_SEGMENT_BYTE=1":                   "the nearest one that does is SLUICE_LOG_SEGMENT_BYTES;",
		"SLUICE_SLUICE_DURABILITY=1":                  "the nearest one that does is SLUICE_DURABILITY;",
		"SLUICE_DATADIR=1":                            "the nearest one that does is SLUICE_DATA_DIR;",
		"SLUICE_":                                     "environment variable \"SLUICE_\" names no setting",
		"SLUICE_" + strings.Repeat("X", maxNearBytes): "names no setting; unset it",
	} {
		if got, err := FromEnviron([]string{variable, "SLUICE_NOPE=1"}); err == nil || len(got) > 0 || !strings.Contains(err.Error(), near) || !strings.Contains(err.Error(), "SLUICE_NOPE") {
			t.Errorf("%s: %v, %v", variable, got, err)
		}
	}
}

func TestFromEnvironTwice(t *testing.T) {
	_, err := FromEnviron([]string{"SLUICE_RATEPERIODINSECOND=60", "SLUICE_DISPATCH_THROTTLING_RATE_PERIOD_SECONDS=60"})
	if err == nil || !strings.Contains(err.Error(), "sets dispatch.throttling.rate.period.seconds, which another one sets too") {
		t.Error(err)
	}
}

// No two keys share a variable, and none has the name of a flag's.
func TestEnvNamesAreUnambiguous(t *testing.T) {
	keys := map[string]string{}
	for _, name := range notSettings {
		keys[name] = "a flag"
	}
	for key := range known(ScopeBroker) {
		name := EnvName(key)
		if keys[name] != "" || strings.HasPrefix(name, testPrefix) {
			t.Errorf("%s stands for %s and %s", name, key, keys[name])
		}
		keys[name] = key
	}
	for name, key := range variables() {
		if keys[name] != "" && keys[name] != key {
			t.Errorf("%s stands for %s and %s", name, key, keys[name])
		}
	}
}
