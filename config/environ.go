package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// envPrefix begins the names of all environment variables that sluice reads.
const envPrefix = "SLUICE_"

// notSettings are variables that stand for flags of the command line, which has them without the broker's settings.
var notSettings = []string{
	"SLUICE_ADMIN", "SLUICE_ADMIN_LISTEN", "SLUICE_ADVERTISE", "SLUICE_BOOTSTRAP_SERVER", "SLUICE_CONFIG", "SLUICE_DATA_DIR",
	"SLUICE_INSECURE", "SLUICE_LISTEN", "SLUICE_LOG_FORMAT", "SLUICE_LOG_LEVEL", "SLUICE_OUTPUT", "SLUICE_READY_FILE",
}

// testPrefix begins variables that belong to test programs.
const testPrefix = "SLUICE_TEST_"

// EnvName is the environment variable of a broker setting: the key in capitals with dots as underscores after SLUICE_. A
// key that begins with "sluice." does not get the prefix twice.
func EnvName(key string) string {
	key = strings.TrimPrefix(key, "sluice.")
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// FromEnviron picks the settings out of an environment of NAME=value strings: SLUICE_LOG_SEGMENT_BYTES gives
// log.segment.bytes. Values are not checked. The error names every variable that begins with SLUICE_ and is neither a
// setting nor a flag of the command line, and the nearest one that is.
func FromEnviron(environ []string) (map[string]string, error) {
	keys := variables()
	values := map[string]string{}
	var errs []error
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !isSettingName(name) {
			continue
		}
		key, ok := keys[name]
		if _, twice := values[key]; ok && twice {
			errs = append(errs, fmt.Errorf("environment variable %s sets %s, which another one sets too; unset one of them", quote(name), key))
		} else if ok {
			values[key] = value
		} else {
			errs = append(errs, unknownVariable(name, keys))
		}
	}
	return values, errors.Join(errs...)
}

// variables are the names of all settings' variables, with the settings' own. An alias has a variable too.
func variables() map[string]string {
	keys := map[string]string{}
	for key := range known(ScopeBroker) {
		keys[EnvName(key)] = key
	}
	for _, r := range settings.declared(ScopeBroker) {
		for _, alias := range r.aliases {
			keys[EnvName(alias)] = r.name
		}
	}
	return keys
}

func isSettingName(name string) bool {
	return strings.HasPrefix(name, envPrefix) && !strings.HasPrefix(name, testPrefix) && !slices.Contains(notSettings, name)
}

func unknownVariable(name string, keys map[string]string) error {
	names := slices.Sorted(maps.Keys(keys))
	names = append(names, notSettings...)
	near := nearest(name, slices.Values(names))
	if near == "" {
		return fmt.Errorf("environment variable %s names no setting; unset it", quote(name))
	}
	return fmt.Errorf("environment variable %s names no setting; the nearest one that does is %s; correct or unset it (docs/config.md lists all settings)", quote(name), near)
}
