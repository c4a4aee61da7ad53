// Package member is what a member of a consumer group tells the driver of the group checks (the folder groups): on its
// standard output, one line for each record that it reads and for each offset whose commit was acknowledged.
//
//	read PARTITION OFFSET VALUE
//	committed PARTITION OFFSET       the offset of the next record
//
// A member prints what it has read before it commits it, joins when it starts and leaves when it gets SIGTERM.
package member

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// What every member asks for: the shortest session that a broker allows by default, and quick rebalances.
const (
	SessionTimeout    = 6 * time.Second
	HeartbeatInterval = 500 * time.Millisecond
)

// Job is what a member is to do.
type Job struct {
	Address, Group, Topic string
	// Consumer has it use the consumer protocol (KIP-848) instead of the classic one.
	Consumer bool
	Out      io.Writer

	mu sync.Mutex // a library may handle partitions at the same time
}

// Library runs a member with one client library until its context ends.
type Library func(ctx context.Context, j *Job) error

// Read tells that a record was read.
func (j *Job) Read(partition int32, offset int64, value []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.Out, "read %d %d %s\n", partition, offset, value)
}

// Committed tells that a commit was acknowledged.
func (j *Job) Committed(partition int32, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.Out, "committed %d %d\n", partition, offset)
}
