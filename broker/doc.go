// Package broker is the Kafka API over the rooms below it: one file per API (NN_name.go, NN the key), table.go with one
// row per API, park.go as the only place where a request waits for data. It owns no durable state: what survives a
// restart is in the partition logs and in the catalog, which is a log too.
//
// A change of topics or settings walks in a circle:
//
//	handler ──event──> catalog (internal/coord) ──order──> follow.go ──> topics, settings
//	   └───────────── reply, once durable and followed <──────┘
//
// So the data path knows only what is durable, and whoever was told of a change can use it at once.
package broker
