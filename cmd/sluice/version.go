package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run prints the module version, the commit it was built from, the Go version and the platform.
func (versionCmd) Run(s *streams) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	_, err := fmt.Fprintf(s.out, "sluice %s, %s, %s/%s\n", buildVersion(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// buildVersion is the module version, or "devel", with the commit that the go command stamped into the binary.
func buildVersion(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "devel"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return version
	}
	if settings["vcs.modified"] == "true" {
		commit += " with local changes"
	}
	return version + " (commit " + commit + ")"
}
