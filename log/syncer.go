package log

import "sync"

// defaultSyncers is how many partitions are synced at once. Syncs that run beside each other share the file system's journal commit, so
// more files a commit cost little (BenchmarkGroupCommit, docs/decisions.md).
const defaultSyncers = 16

// sealers is how many partitions have side files written at once. Nobody waits for those but retention and the end, so they get little of the disk.
const sealers = 4

// syncer is the group commit: a queue of partitions with unsynced appends. As soon as a partition's last sync has ended, the next one begins and
// covers all that was written before it; there is no window to wait for. Goroutines exist only while there is something to sync.
type syncer struct {
	limit int
	work  func(*Log)

	mu      sync.Mutex
	queue   []*Log
	running int
	idle    *sync.Cond
}

func newSyncer(limit int, work func(*Log)) *syncer {
	s := &syncer{limit: limit, work: work}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// add queues l, whose lock is held. l is in the queue, or being synced, at most once.
func (s *syncer) add(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, l)
	if s.running < s.limit {
		s.running++
		go s.run()
	}
}

func (s *syncer) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running--
			s.idle.Broadcast()
			s.mu.Unlock()
			return
		}
		l := s.queue[0]
		copy(s.queue, s.queue[1:])
		s.queue = s.queue[:len(s.queue)-1]
		s.mu.Unlock()
		s.work(l)
	}
}

// close waits until the queue is empty.
func (s *syncer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.idle.Wait()
	}
}
