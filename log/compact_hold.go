package log

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// cleanerHold is the cleaner's place in a Log, guarded by its lock.
type cleanerHold struct {
	stop       context.CancelFunc // ends the run that is under way; nil: there is none
	done       *sync.Cond
	unfinished *swap // shown, and its files not yet in order
	broken     error // why the log is not cleaned any more
	reached    int64 // clean below, while the clean point cannot say it
	due        int64 // ms: when tombstones or markers may go, 0: none is known
}

// holdForCleaning makes sure that one cleaner at a time is at work, and that it can be told to leave.
func (l *Log) holdForCleaning(ctx context.Context) (context.Context, func(), error) {
	l.mu.Lock()
	if err := l.cleanable(); err != nil {
		l.mu.Unlock()
		return nil, nil, err
	}
	if l.cleaner.stop != nil {
		l.mu.Unlock()
		return nil, nil, fmt.Errorf("%s-%d: %w", l.topic, l.partition, ErrCleaning)
	}
	ctx, l.cleaner.stop = context.WithCancel(ctx)
	if l.cleaner.done == nil {
		l.cleaner.done = sync.NewCond(&l.mu)
	}
	unfinished := l.cleaner.unfinished
	l.mu.Unlock()
	if unfinished != nil {
		if err := l.finishSwap(unfinished); err != nil {
			l.endCleaning()
			return nil, nil, err
		}
	}
	return ctx, l.endCleaning, nil
}

func (l *Log) endCleaning() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleaner.stop()
	l.cleaner.stop = nil
	l.cleaner.done.Broadcast()
}

// stopCleaning has the cleaner leave, and waits until it has: it touches files by name. Called with mu held, which it gives up meanwhile.
func (l *Log) stopCleaning() {
	for l.cleaner.stop != nil {
		l.cleaner.stop()
		l.cleaner.done.Wait()
	}
}

// cleanable opens the log, and refuses one that must not be touched. Called with mu held.
func (l *Log) cleanable() error {
	if err := l.ready(); err != nil {
		return err
	}
	switch {
	case l.damage != nil:
		return fmt.Errorf("%w: %w", ErrUncleanable, l.damage)
	case slices.ContainsFunc(l.segs, func(s *segment) bool { return s.lost }):
		return fmt.Errorf("%w: a segment is missing", ErrUncleanable)
	case l.cleaner.broken != nil:
		return l.cleaner.broken
	}
	return nil
}

// noteCleaned raises the clean point where nothing had to be changed. It need not be durable at once.
func (l *Log) noteCleaned(reached int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.cleanable(); err != nil {
		return err
	}
	before := l.cleaned
	if l.reach(reached); l.cleaned != before {
		l.noteSlot()
	}
	return nil
}

// reach notes that the log is clean below offset.
func (l *Log) reach(offset int64) {
	l.cleaner.reached = max(l.cleaner.reached, offset)
	l.cleaned = l.cleaned.reach(offset)
}

// firstDirty is where the next round begins to look for keys.
func (l *Log) firstDirty() int64 { return max(l.cleaned.clean(), l.cleaner.reached, l.start) }
