package coord_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/coord"
	"sluice/internal/coord/coordtest"
)

// Many callers at once, with a disk that syncs when it likes and fails once; for the race detector, and for lost or doubled answers.
func TestManyCallers(t *testing.T) {
	var log coordtest.MemLog
	s, err := coord.Open(newLedger(&faults{}), &log, coord.Options{Logger: quiet, Orders: func([]any) {}})
	if err != nil {
		t.Fatal(err)
	}
	log.Hold()
	stop := make(chan struct{})
	var disk sync.WaitGroup
	lost := 0
	disk.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				log.Release()
				return
			default:
			}
			if i > 50 && lost == 0 {
				lost = log.FailSync(errDisk)
			}
			log.Sync(-1)
			runtime.Gosched()
		}
	})
	var callers sync.WaitGroup
	var kept atomic.Int64
	for range 8 {
		callers.Go(func() {
			for i := range 200 {
				v, err := s.Ask(t.Context(), put{uint64(i)})
				if err == nil {
					kept.Add(1)
				} else if !errors.Is(err, coord.ErrNotDurable) {
					t.Error(err)
				}
				if n, err := s.Ask(t.Context(), count{}); err == nil && v != nil && n.(int) < v.(int) {
					t.Errorf("a read of %v after a put that counted %v", n, v)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	disk.Wait()
	s.Close()
	if n := int64(len(log.Durable())); n < kept.Load() || kept.Load() == 0 || lost == 0 {
		t.Errorf("%d puts were confirmed, %d are durable, and %d were lost", kept.Load(), n, lost)
	}
}

// Close while callers come, for the race detector: each of them is answered.
func TestCloseUnderLoad(t *testing.T) {
	var log coordtest.MemLog
	s, err := coord.Open(newLedger(&faults{}), &log, coord.Options{Logger: quiet, Orders: func([]any) {}})
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for {
				if _, err := s.Ask(t.Context(), put{1}); err != nil {
					if !errors.Is(err, coord.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	if _, err := s.Ask(t.Context(), wait{100}); err != nil {
		t.Error(err)
	}
	s.Close()
	callers.Wait()
}

// The driver's own allocations for a read that is answered at once: none but the event's boxes. The ledger allocates its reply's slice.
func TestReadAllocatesLittle(t *testing.T) {
	var log coordtest.MemLog
	s, err := coord.Open(newLedger(&faults{}), &log, coord.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ev any = count{}
	done := func(any, error) {}
	if n := testing.AllocsPerRun(1000, func() { s.Do(ev, done) }); n > 2 {
		t.Errorf("%v allocations for a read", n)
	}
}

func BenchmarkRead(b *testing.B) {
	var log coordtest.MemLog
	s, err := coord.Open(newLedger(&faults{}), &log, coord.Options{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	done := func(any, error) {}
	b.ReportAllocs()
	for b.Loop() {
		s.Do(count{}, done)
	}
}

func BenchmarkWrite(b *testing.B) {
	var log nullLog
	s, err := coord.Open(newLedger(&faults{}), &log, coord.Options{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var pending sync.WaitGroup
	done := func(any, error) { pending.Done() }
	b.ReportAllocs()
	for b.Loop() {
		pending.Add(1)
		s.Do(put{1}, done)
	}
	pending.Wait()
}
