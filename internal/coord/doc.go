// Package coord drives a pure machine over one internal log. It does not know groups from transactions or topics.
//
//	           Do(event)                       the log's sync
//	               │                                 │
//	  lock ┌───────▼───────┐                         │
//	       │ Step          │   records   ┌───────────▼──────────┐
//	       │ Append, Apply ├────────────►│ the ticket resolves  │
//	       └───────┬───────┘             └───────────┬──────────┘
//	unlock         │ orders, replies                 │ opens the gate
//	               ▼                                 ▼
//	     [ item item GATE item GATE item item ]  the release queue ──► Orders, done
//
// Every step's orders and replies go through one queue, behind a gate for each append that is not durable yet. So a
// reply, a read's too, leaves only when the log is durable up to where it stood at that Step, and everything leaves in
// the order of the steps. Nothing is called or waited for while the lock is held, except stage one of an append.
//
// There is no rollback. When an append is refused or its ticket fails, the machine is dropped, whoever waits for it is
// told ErrNotDurable, and a fresh machine is replayed from what is durable.
package coord
