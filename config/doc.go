// Package config declares every setting once, as one row: name, type, default, bounds, where it may stand, whether it may
// change while the broker runs, what it means, and where it is stored. From the rows come the typed snapshots that the
// program reads (NewBroker, NewTopic), validation, DescribeConfigs, docs/config.md and the suggestions for misspelt keys.
//
// Values come in layers, the strongest first:
//
//	a topic's (or a group's) own setting
//	the broker's dynamic setting          BROKER resource "1"
//	the cluster-wide dynamic default      BROKER resource ""
//	static                                file < environment < --set, merged by the caller
//	the default of the row
//
// A topic setting names the broker settings that stand in for it where the topic has none of its own: segment.bytes falls
// back on log.segment.bytes, retention.ms on log.retention.ms, .minutes and .hours. Those broker settings are part of the
// topic's row, so that type, bounds and meaning cannot drift apart.
//
// The package is pure: it reads no file, no environment and no clock. cmd/sluice passes texts and maps in.
package config

//go:generate go test -run ^TestDocs$ -rewrite .
