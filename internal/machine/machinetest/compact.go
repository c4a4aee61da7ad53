// Package machinetest is what tests of several machines share.
package machinetest

import (
	"slices"

	"sluice/internal/machine"
)

// Compacted keeps the newest record of each key, in its place, and those without a value only if tombstones says so.
func Compacted(log []machine.Record, tombstones bool) (out []machine.Record) {
	newest := map[string]int{}
	for i, r := range log {
		newest[string(r.Key)] = i
	}
	for i, r := range log {
		if newest[string(r.Key)] == i && (tombstones || r.Value != nil) {
			out = append(out, r)
		}
	}
	return out
}

// Partly compacts the front of a log, as the cleaner leaves it.
func Partly(log []machine.Record, tombstones bool) []machine.Record {
	n := 2 * len(log) / 3
	return slices.Concat(Compacted(log[:n], tombstones), log[n:])
}
