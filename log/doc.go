// Package log keeps partitions on disk: append, read, watch, find, forget.
//
// An append has two stages. Stage one (Log.Append) gives a batch its place (offset,
// leader epoch, producer state), writes it, and never waits for the disk; it returns a
// Ticket. Stage two makes the batch durable and then visible, and resolves the ticket.
// One sync serves every batch that was written before it began.
//
// The package knows nothing of requests or clients.
package log
