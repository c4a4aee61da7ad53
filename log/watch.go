package log

// Watcher is told that something happened. Fire must not block and must not call into the log.
type Watcher interface{ Fire() }

// Watch is a watcher's line to one log. It belongs to the caller, who may watch a hundred thousand partitions, so that the log needs no memory
// for it. It must not be copied or changed while it watches.
type Watch struct {
	To         Watcher
	prev, next *Watch // guarded by the log's mu
}

// Watch has w.To.Fire called each time the visible end or the start moves, or the log goes offline or is deleted, until Unwatch.
func (l *Log) Watch(w *Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.prev, w.next = nil, l.watchers
	if l.watchers != nil {
		l.watchers.prev = w
	}
	l.watchers = w
}

// Unwatch ends Watch; a Fire that is under way may still arrive. It does nothing if w does not watch this log.
func (l *Log) Unwatch(w *Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case l.watchers == w:
		l.watchers = w.next
	default:
		return
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

func (l *Log) fire() {
	for w := l.watchers; w != nil; w = w.next {
		w.To.Fire()
	}
}
