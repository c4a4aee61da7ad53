package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progressInterval is the time between two redraws: often enough to look alive, too seldom to cost anything.
const progressInterval = 200 * time.Millisecond

// progress redraws one line of a terminal while records are acknowledged.
type progress struct {
	quit chan struct{}
	done sync.WaitGroup
}

// startProgress draws on w, if that is a terminal, how much of the input is acknowledged.
func startProgress(w io.Writer, in recordInput, t *tally) *progress {
	p := &progress{quit: make(chan struct{})}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.done.Go(func() { p.draw(w, in, t) })
	}
	return p
}

// stop erases the line and returns when nothing will be drawn any more.
func (p *progress) stop() {
	close(p.quit)
	p.done.Wait()
}

func (p *progress) draw(w io.Writer, in recordInput, t *tally) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	const eraseLine = "\r\x1b[K"
	for {
		select {
		case <-p.quit:
			fmt.Fprint(w, eraseLine)
			return
		case <-ticker.C:
			records, bytes := t.acknowledged()
			fmt.Fprint(w, eraseLine+progressLine(records, bytes+records*in.between, in.size))
		}
	}
}

// progressLine tells how many records and bytes of the input are done: it is a bar when the total is known, and a count when it is not.
func progressLine(records, bytes, size int64) string {
	counts := fmt.Sprintf("%d records, %s", records, byteCount(bytes))
	if size <= 0 {
		return counts
	}
	const width = 30
	share := min(1, float64(bytes)/float64(size))
	full := int(share * width)
	return fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("#", full), strings.Repeat(".", width-full), share*100, counts)
}
