package main

import "fmt"

// The scenario. Segments are small, so that a few rounds roll several times.
const (
	segmentBytes  = "4096"
	indexInterval = "512"
	alphaParts    = 3
	doomedParts   = 2
	betaParts     = 1 // and betaGrown later
	betaGrown     = 3
)

func settings(more ...string) map[string]string {
	m := map[string]string{"internal.segment.bytes": segmentBytes, "index.interval.bytes": indexInterval}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// life is what happens between a start and the end of a process.
type life struct {
	name     string
	do       func(*session) error
	recovers bool // begins with a recovery: a disk that fails then may leave partitions offline
	crash    bool // ends with kill -9 and torn writes, otherwise with SIGTERM
}

// lives are the scenario: a new data directory; after a clean stop; after a kill, so that recovery is under trace too.
var lives = []life{
	{name: "first start", do: firstLife},
	{name: "start after a clean stop", do: secondLife, crash: true},
	{name: "start after a kill", do: thirdLife, recovers: true},
}

func steps(do ...func() error) error {
	for _, f := range do {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func firstLife(s *session) error {
	return steps(
		func() error {
			return s.create(spec{"alpha", alphaParts, settings()}, spec{"beta", betaParts, settings("compression.type", "producer")}, spec{"doomed", doomedParts, settings()})
		},
		s.initProducer,
		func() error { return s.fleeting("fleeting") },
		s.rounds(7),
		func() error { return s.configure("alpha", "retention.ms", "86400001") },
		func() error { return s.configure("beta", "max.message.bytes", "500000") },
		func() error { return s.grow("beta", betaGrown) },
		s.rounds(4),
		func() error { return s.deleteRecords("alpha", 0, 7) },
		func() error { return s.deleteRecords("beta", 0, 2) },
		s.recreate("doomed"),
		s.rounds(5),
		s.resend("alpha"),
	)
}

func secondLife(s *session) error {
	return steps(s.resend("alpha"), s.rounds(3), func() error { return s.configure("alpha", "retention.ms", "86400002") },
		s.recreate("doomed"), s.rounds(2))
}

func thirdLife(s *session) error {
	return steps(s.resend("alpha"), s.rounds(3), func() error { return s.deleteRecords("alpha", 1, 9) }, s.rounds(1))
}

// rounds produces n times, or as many times more often as was asked for, to every partition, idempotent and plain, in several requests at once.
func (s *session) rounds(n int) func() error {
	return func() error {
		for range n * s.times {
			if err := s.produce(all("alpha", alphaParts, true), all("beta", betaGrown, false), all("doomed", doomedParts, true), all("alpha", alphaParts, false)); err != nil {
				return err
			}
		}
		return nil
	}
}

func all(name string, n int, idempotent bool) []target {
	var ts []target
	for p := range n {
		ts = append(ts, target{name, p, idempotent})
	}
	return ts
}

// recreate deletes a topic and makes it again, if it is known to be there.
func (s *session) recreate(name string) func() error {
	return func() error {
		if t, _ := s.world.current(name); t == nil {
			return nil
		}
		if err := s.delete(name); err != nil {
			return err
		}
		for _, v := range s.world.names[name] {
			if v.topic != nil {
				return nil // it may still be there
			}
		}
		return s.create(spec{name, doomedParts, settings("retention.ms", fmt.Sprint(90_000_000+s.rng.IntN(1000)))})
	}
}

func (s *session) resend(name string) func() error { return func() error { return s.resendLast(name) } }
