package coord

// unlock gives up the lock and sees to what the locked section left: tickets to watch, items to release, a replay to begin.
func (s *Shard) unlock() {
	s.replayWhenDrained()
	if !s.releasing && s.queue.ready() {
		s.takeRelease()
		go s.release()
	}
	g := s.fresh
	s.fresh = nil
	s.mu.Unlock()
	for ; g != nil; g = g.next {
		s.watch(g)
	}
}

// unlockAndReply is unlock for a caller who may run a done: a lone reply with nothing before it goes out at once.
func (s *Shard) unlockAndReply() {
	if s.releasing || !s.queue.ready() || !s.queue.loneReply() {
		s.unlock()
		return
	}
	s.takeRelease()
	it := s.queue.pop()
	s.unlock()
	defer s.endRelease()
	it.done(it.value, it.err)
}

func (s *Shard) takeRelease() {
	s.releasing = true
	s.background.Add(1)
}

func (s *Shard) endRelease() {
	s.mu.Lock()
	s.releasing = false
	s.unlock()
	s.background.Done()
}

// release hands out what may go until there is no more. It is the only one to do so while it runs, which keeps the order.
func (s *Shard) release() {
	defer s.endRelease()
	for s.takeReady() {
		for _, it := range s.out {
			s.deliver(it)
		}
		clear(s.out)
	}
}

func (s *Shard) takeReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = s.queue.takeReady(s.out[:0])
	return len(s.out) > 0
}

func (s *Shard) deliver(it item) {
	switch {
	case it.done != nil:
		it.done(it.value, it.err)
	case it.orders != nil && s.orders != nil:
		s.orders(it.orders)
	}
}

func (s *Shard) watch(g *gate) {
	g.ticket.Notify(func(err error) { s.resolved(g, err) })
}

// resolved opens a gate. It runs on the log's goroutine, so it calls nobody.
func (s *Shard) resolved(g *gate, err error) {
	s.mu.Lock()
	s.unresolved--
	g.open = true
	if err != nil {
		s.lose(g, err)
	}
	s.unlock()
}
