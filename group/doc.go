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
//	3 to 8, 16                           KIP-848's, passed over here
//
// Hard state is what those records say: the offsets of each group and the newest generation that was recorded. Soft state is
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
