// Package group holds the consumer groups: a pure machine over the records of one partition of __consumer_offsets. Step
// decides, Apply is the only writer of hard state, live and at replay, and what leaves are records, replies and
// orders. The driver is internal/coord; the shell is broker.
//
// The records are Kafka's own, so that tools which read that topic work. A key begins with its version, which says what it is a key of:
//
//	key                                  value                                            tombstone when
//	1 | group | topic | partition        offset, leader epoch, metadata, commit time      deleted, or expired
//	2 | group                            generation, protocol, leader, members with       the group is deleted, or empty
//	                                     subscription and assignment                      and without offsets
//	3 | group                            consumer protocol: group epoch, topics' hash     the group is deleted, or empty
//	                                                                                      and without offsets
//	5 | group | member                   what the member says: subscription, timeout,     the member leaves, or is fenced
//	                                     client, instance
//	6 | group                            epoch of the target assignment                   as 3
//	7 | group | member                   what the member is to have                       as 5
//	8 | group | member                   member epoch, what the member has, what it is    as 5
//	                                     to give back
//	4, 16                                Kafka's notes about topics, passed over: what they say is worked out again
//
// A group is of one of two protocols. In the classic one the members assign among themselves, and much of what follows is about it; the
// consumer protocol, in which the group assigns (KIP-848), is explained in consumer.go.
//
// Hard state is what those records say: the offsets of each group, the newest generation that was recorded, the members
// of the consumer protocol with their epochs. Soft state is
// everything that a client can bring about again: who waits, the timers, member ids given out, and a rebalance until its
// leader's assignment is recorded. A replay therefore finds a group as its last recorded generation left it.
//
//	         first join                  all have joined, or the time is up
//	Empty ───────────────► PreparingRebalance ─────────────► CompletingRebalance
//	  ▲ ▲                      │   ▲  ▲                         │     │
//	  │ └── nobody is left ────┘   │  └── join, leave, failure ─┘     │ leader's SyncGroup
//	  │                            │                                  ▼
//	  │                            └── join, leave, failure ─────── Stable
//	  └── deleted, or empty and its offsets expired ──► Dead
//
// The states are explained in state.go, time and stopped processes in clock.go, bounds in limits.go.
package group
