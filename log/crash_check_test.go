package log

import (
	"bytes"
	"context"
	"fmt"
	iofs "io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"sluice/internal/vfs"
	"sluice/kproto"
)

// checkImage opens a disk after a crash and holds it against the promises; then again, since recovery must hold too what it has shown; then goes on with it.
func checkImage(img *vfs.Mem, ps promises, killed bool) error {
	defer checkedImages.Add(1)
	states, err := openAndVerify(img, ps, killed)
	if err != nil {
		return err
	}
	second := img.Crash(vfs.KeepNothing)
	before, err := contents(second)
	if err != nil {
		return err
	}
	d, err := start(second, ps)
	if err != nil {
		return fmt.Errorf("second recovery: %w", err)
	}
	defer abandon(d)
	again, err := verifyAll(d, ps, killed)
	if err != nil {
		return fmt.Errorf("second recovery: %w", err)
	}
	if !reflect.DeepEqual(states, again) {
		return differ(states, again)
	}
	if after, err := contents(second); err != nil || !maps.Equal(before, after) {
		return fmt.Errorf("second recovery changed files: %v (%v)", changed(before, after), err)
	}
	return goOn(second, d, ps, again)
}

// differ shows the first partition that is not the same.
func differ(states, again []partState) error {
	for i := range states {
		if !reflect.DeepEqual(states[i], again[i]) {
			return fmt.Errorf("second recovery differs: %+v, then %+v", states[i], again[i])
		}
	}
	return nil
}

// start is what the broker does at its start: open, finish deletions, register, recover.
func start(img *vfs.Mem, ps promises) (*Dir, error) {
	d, err := Open("data", Options{FS: img, OpenFiles: int(ps.epoch % 2)}) // 0: enough
	if err != nil {
		return nil, err
	}
	d.SetEpoch(ps.epoch + 1)
	found, err := d.Partitions()
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		for _, p := range ps.parts {
			if f.ID != p.part.id || f.Topic != p.part.topic || f.Partition != p.part.n {
				continue
			}
			if p.old {
				return nil, fmt.Errorf("deleted partition %s is back", f.Path)
			}
			if p.dying {
				if err := d.Discard(f); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, p := range ps.parts {
		if !p.dying {
			d.Log(p.part.topic, p.part.id, p.part.n, p.part.cfg)
		}
	}
	return d, d.Recover(context.Background())
}

func openAndVerify(img *vfs.Mem, ps promises, killed bool) ([]partState, error) {
	d, err := start(img, ps)
	if err != nil {
		return nil, err
	}
	defer abandon(d)
	if ps.closed && !d.Clean() {
		return nil, fmt.Errorf("closed, and not found clean")
	}
	return verifyAll(d, ps, killed)
}

func verifyAll(d *Dir, ps promises, killed bool) ([]partState, error) {
	var states []partState
	for _, p := range ps.parts {
		if p.dying {
			continue
		}
		s, err := p.verify(d.Log(p.part.topic, p.part.id, p.part.n, p.part.cfg), killed)
		if err != nil {
			return nil, fmt.Errorf("%s-%d: %w", p.part.topic, p.part.n, err)
		}
		states = append(states, s)
	}
	return states, nil
}

// partState is what a recovered partition is, apart from its bytes.
type partState struct {
	Offsets   Offsets
	IDs       []int64
	Producers map[int64][]producerBatch
	Epochs    epochs
}

// verify compares one recovered partition with the promises.
func (p *partPromise) verify(l *Log, killed bool) (partState, error) {
	o, err := l.Offsets()
	if err != nil {
		return partState{}, err
	}
	batches, err := readBatches(l, o)
	if err != nil {
		return partState{}, err
	}
	s := partState{Offsets: o, Producers: windows(l), Epochs: slices.Clone(l.epochs)}
	if s.IDs, err = p.verifyBatches(o, batches); err != nil {
		return s, err
	}
	if err := p.verifyPromises(o, batches, s.IDs, killed); err != nil {
		return s, err
	}
	if err := verifyProducers(o.Start, s.Producers, batches); err != nil {
		return s, err
	}
	if err := verifyEpochs(l, o, batches); err != nil {
		return s, err
	}
	return s, verifyLookups(l, o, batches)
}

func readBatches(l *Log, o Offsets) ([]kproto.Batch, error) {
	var all []kproto.Batch
	for at := o.Start; at < o.High; {
		b, next, err := l.ReadBytes(nil, at, o.High, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("read at %d of %+v: %w", at, o, err)
		}
		if next <= at {
			return nil, fmt.Errorf("read at %d of %+v got nothing", at, o)
		}
		eachBatch(b, func(b kproto.Batch) { all = append(all, b) })
		if _, err := countsAgree(l, at, o.High, 1<<20); err != nil {
			return nil, err
		}
		at = next
	}
	return all, nil
}

// verifyBatches: whole, dense, each one tried, none twice.
func (p *partPromise) verifyBatches(o Offsets, batches []kproto.Batch) ([]int64, error) {
	tries, order, maxStart := p.part.tried()
	if o.Start < p.start || o.Start > maxStart || o.High != o.End {
		return nil, fmt.Errorf("offsets %+v; start %d was acknowledged, %d asked for", o, p.start, maxStart)
	}
	var ids []int64
	seen := map[int64]bool{}
	expected := int64(-1)
	for _, b := range batches {
		id, err := batchID(b)
		if err != nil || !b.ValidCRC() {
			return nil, fmt.Errorf("batch at %d: CRC valid: %v, %w", b.BaseOffset(), b.ValidCRC(), err)
		}
		tr := tries[id]
		switch {
		case tr == nil:
			return nil, fmt.Errorf("batch %d at %d was never tried", id, b.BaseOffset())
		case !bytes.Equal(b[bytesAfterEpoch:], tr.batch[bytesAfterEpoch:]):
			return nil, fmt.Errorf("batch %d at %d has other bytes", id, b.BaseOffset())
		case expected >= 0 && b.BaseOffset() != expected, expected < 0 && b.BaseOffset() > o.Start:
			return nil, fmt.Errorf("batch %d at %d, expected at %d (start %d)", id, b.BaseOffset(), expected, o.Start)
		case seen[id]:
			return nil, fmt.Errorf("batch %d is there twice, again at %d", id, b.BaseOffset())
		}
		seen[id] = true
		expected = b.NextOffset()
		ids = append(ids, id)
	}
	if len(batches) > 0 && expected != o.End || len(batches) == 0 && o.Start != o.End {
		return nil, fmt.Errorf("batches end at %d, offsets %+v", expected, o)
	}
	if !p.part.strict() {
		return ids, prefixClosed(ids, order)
	}
	return ids, nil
}

// bytesAfterEpoch is where what the log stamps ends.
const bytesAfterEpoch = 16

// prefixClosed: no batch is there whose predecessor in the log's order is lost.
func prefixClosed(ids []int64, order []*try) error {
	if len(ids) == 0 {
		return nil
	}
	i := slices.IndexFunc(order, func(t *try) bool { return t.id == ids[0] })
	for k, id := range ids {
		if order[i+k].id != id {
			return fmt.Errorf("batch %d is there, %d before it is not", id, order[i+k].id)
		}
	}
	return nil
}

func (p *partPromise) verifyPromises(o Offsets, batches []kproto.Batch, ids []int64, killed bool) error {
	at := map[int64]int64{}
	for i, b := range batches {
		at[b.BaseOffset()] = ids[i]
	}
	hold := func(what string, base, id int64) error {
		if got, ok := at[base]; base >= o.Start && (!ok || got != id) {
			return fmt.Errorf("batch %d was %s at %d, and there is %d (found %v); %+v", id, what, base, got, ok, o)
		}
		return nil
	}
	if !p.part.strict() && (!killed || p.dropped) {
		if o.End < p.durable {
			return fmt.Errorf("durable to %d, and the log ends at %d", p.durable, o.End)
		}
	} else {
		for i, a := range p.acked {
			if err := hold("acknowledged", p.bases[i], a.id); err != nil {
				return err
			}
		}
		for _, s := range p.seen {
			if err := hold("seen", s.base, s.id); err != nil {
				return err
			}
		}
	}
	for _, g := range p.gone {
		if !g.failed || slices.Contains(p.acked, g) {
			continue // tried again since
		}
		if slices.Contains(ids, g.id) {
			return fmt.Errorf("batch %d was taken back, and is there", g.id)
		}
	}
	return nil
}

func windows(l *Log) map[int64][]producerBatch {
	ws := map[int64][]producerBatch{}
	for id, p := range l.producers {
		ws[id] = slices.Clone(p.batches[:p.n])
	}
	return ws
}

// verifyProducers: the windows are those that the batches give. Where the log was cut in front, windows may know older batches too.
func verifyProducers(start int64, got map[int64][]producerBatch, batches []kproto.Batch) error {
	model := producers{}
	for _, b := range batches {
		model.note(b, 0, replayTime(b))
	}
	for id, p := range model {
		want, have := p.batches[:p.n], got[id]
		if len(have) > len(want) && start > 0 {
			have = have[len(have)-len(want):]
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("producer %d: window %+v, its batches say %+v", id, got[id], want)
		}
	}
	for id := range got {
		if model[id] == nil && start == 0 {
			return fmt.Errorf("producer %d is known and has no batch", id)
		}
	}
	return nil
}

func verifyEpochs(l *Log, o Offsets, batches []kproto.Batch) error {
	for i, b := range batches {
		want := o.High
		for _, later := range batches[i:] {
			if later.LeaderEpoch() != b.LeaderEpoch() {
				want = later.BaseOffset()
				break
			}
		}
		if e, end, err := l.EpochEnd(b.LeaderEpoch()); err != nil || e != b.LeaderEpoch() || end != want {
			return fmt.Errorf("epoch %d ends at %d, found %d of epoch %d (%v)", b.LeaderEpoch(), want, end, e, err)
		}
	}
	return nil
}

// verifyLookups: the indexes find what a scan finds.
func verifyLookups(l *Log, o Offsets, batches []kproto.Batch) error {
	newest := Position{-1, -1, -1}
	for i, b := range batches {
		for _, at := range []int64{b.BaseOffset(), b.LastOffset()} {
			if at < o.Start {
				continue
			}
			got, _, err := l.ReadBytes(nil, at, o.High, 1)
			if err != nil || !bytes.Equal(got, b) {
				return fmt.Errorf("lookup of %d: %d bytes, want %d (%v)", at, len(got), len(b), err)
			}
		}
		if b.LastOffset() < o.Start {
			continue
		}
		got, err := l.FindTime(b.MaxTimestamp(), o.High)
		if want := scanTime(batches[:i+1], b.MaxTimestamp(), o.Start); err != nil || got != want {
			return fmt.Errorf("lookup of time %d: %+v, want %+v (%v)", b.MaxTimestamp(), got, want, err)
		}
		newest = later(newest, b, o.Start)
	}
	if got, err := l.MaxTime(o.High); err != nil || got != newest {
		return fmt.Errorf("largest time %+v, want %+v (%v)", got, newest, err)
	}
	return nil
}

func scanTime(batches []kproto.Batch, ms, start int64) Position {
	found := nowhere
	for _, b := range batches {
		_ = b.EachRecord(func(r kproto.Record) bool {
			if found.Offset < 0 && r.Timestamp >= ms && r.Offset >= start {
				found = Position{r.Offset, r.Timestamp, b.LeaderEpoch()}
			}
			return found.Offset < 0
		})
	}
	return found
}

func later(best Position, b kproto.Batch, start int64) Position {
	_ = b.EachRecord(func(r kproto.Record) bool {
		if r.Timestamp > best.Timestamp && r.Offset >= start {
			best = Position{r.Offset, r.Timestamp, b.LeaderEpoch()}
		}
		return true
	})
	return best
}

// goOn retries the last batches of the producers, appends to every partition, and cuts the power again.
func goOn(img *vfs.Mem, d *Dir, ps promises, states []partState) error {
	var added []int64
	i := 0
	for _, p := range ps.parts {
		if p.dying {
			continue
		}
		l := d.Log(p.part.topic, p.part.id, p.part.n, p.part.cfg)
		if err := p.retryKnown(l, states[i]); err != nil {
			return fmt.Errorf("%s-%d: %w", p.part.topic, p.part.n, err)
		}
		c := *p.part.cfg
		c.Durability = Fsync
		l.SetConfig(&c)
		a, err := l.Append(idBatch(0, batchSpec{}), AppendOptions{})
		if err == nil {
			err = a.Ticket.Wait(context.Background())
		}
		if err != nil || a.Base != states[i].Offsets.End {
			return fmt.Errorf("%s-%d: append after recovery: at %d, want %d (%v)", p.part.topic, p.part.n, a.Base, states[i].Offsets.End, err)
		}
		added = append(added, a.Base)
		i++
	}
	abandon(d)
	return survived(img.Crash(vfs.KeepNothing), ps, states, added)
}

// retryKnown: what is in the log is answered as a duplicate with its offset.
func (p *partPromise) retryKnown(l *Log, s partState) error {
	tries, _, _ := p.part.tried()
	for _, id := range s.IDs {
		tr := tries[id]
		window := s.Producers[tr.spec.pid]
		i := slices.IndexFunc(window, func(b producerBatch) bool {
			return tr.spec.pid > 0 && b.firstSeq == tr.batch.BaseSequence() && b.lastSeq == tr.batch.LastSequence()
		})
		if i < 0 || l.producers[tr.spec.pid].epoch != tr.spec.epoch {
			continue
		}
		a, err := l.Append(slices.Clone(tr.batch), AppendOptions{})
		if err != nil || !a.Duplicate || a.Base != window[i].base {
			return fmt.Errorf("retry of batch %d: %+v, original at %d (%v)", id, a, window[i].base, err)
		}
	}
	return nil
}

func survived(img *vfs.Mem, ps promises, states []partState, added []int64) error {
	d, err := start(img, ps)
	if err != nil {
		return fmt.Errorf("third start: %w", err)
	}
	defer abandon(d)
	i := 0
	for _, p := range ps.parts {
		if p.dying {
			continue
		}
		o, err := d.Log(p.part.topic, p.part.id, p.part.n, p.part.cfg).Offsets()
		if want := states[i].Offsets; err != nil || o.Start != want.Start || o.End != added[i]+1 || o.High != o.End {
			return fmt.Errorf("%s-%d: after the next append and power cut %+v, before %+v (%v)", p.part.topic, p.part.n, o, want, err)
		}
		i++
	}
	return nil
}

// contents is every file's bytes, but for the data directory's own, which a start writes although nothing has changed.
func contents(fs vfs.FS) (map[string]string, error) {
	files := map[string]string{}
	var visit func(dir string) error
	visit = func(dir string) error {
		entries, err := fs.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := visitEntry(fs, files, filepath.Join(dir, e.Name()), e, visit); err != nil {
				return err
			}
		}
		return nil
	}
	return files, visit("data")
}

func visitEntry(fs vfs.FS, files map[string]string, name string, e iofs.DirEntry, visit func(string) error) error {
	switch {
	case strings.HasSuffix(e.Name(), deleteSuffix):
		return nil
	case e.IsDir():
		return visit(name)
	case slices.Contains([]string{durableFile, cleanFile, cleanFile + tempSuffix, lockFile}, e.Name()):
		return nil
	}
	b, err := vfs.ReadFile(fs, name, 1<<30)
	files[name] = string(b)
	return err
}

func changed(a, b map[string]string) string {
	var names []string
	for n := range a {
		if c, ok := b[n]; !ok || c != a[n] {
			names = append(names, fmt.Sprintf("%s (%d bytes, then %d)", n, len(a[n]), len(c)))
		}
	}
	for n := range b {
		if _, ok := a[n]; !ok {
			names = append(names, "+"+n)
		}
	}
	return strings.Join(names, " ")
}
