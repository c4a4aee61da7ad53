package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxShownErrors is how many failures are listed; all of them are counted.
const maxShownErrors = 5

// tally counts what became of the records. Its methods may be called at the same time.
type tally struct {
	mu             sync.Mutex
	records, bytes int64
	failed         int64
	first          []error // at most maxShownErrors
}

// finished is called once a record.
func (t *tally) finished(r *kgo.Record, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.records++
		t.bytes += int64(len(r.Key) + len(r.Value))
		return
	}
	t.failed++
	if len(t.first) < maxShownErrors {
		t.first = append(t.first, err)
	}
}

func (t *tally) failures() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *tally) acknowledged() (records, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.records, t.bytes
}

// err tells how many records failed, and the first distinct reasons.
func (t *tally) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == 0 {
		return nil
	}
	var reasons []string
	for _, err := range t.first {
		text := explain("the broker", err, "").Error()
		if !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	text := fmt.Sprintf("%d records were not acknowledged", t.failed)
	for _, reason := range reasons {
		text += "\n" + reason
	}
	return errors.New(text)
}
