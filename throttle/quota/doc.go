// Package quota decides on client quotas as Apache Kafka has them: which quota a client of a name falls under (KIP-55), how much of it is
// used, and how long the client is to be held (KIP-13, KIP-124, KIP-219, KIP-599). It stands beside dispatch throttling, which counts what
// leaves by topic and subscription and never sets a throttle time. Like all of throttle it is pure but for its locks, which all connections share: now is passed in.
package quota
