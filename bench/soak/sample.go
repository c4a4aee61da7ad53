package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sample is how the broker stood at one moment.
type sample struct {
	at         time.Time
	rss        int64 // bytes
	heap       int64 // bytes in use, by the runtime
	fds        int
	goroutines int
	cpu        float64 // seconds since its start
	cleaned    float64 // bytes that compaction has read and written
	runs       float64 // of compaction
	disk       disk
}

// disk is the data directory of one moment.
type disk struct {
	live    map[string]int64 // .log bytes of each partition
	waiting int64            // bytes of .deleted files
	beside  int64            // bytes of what compaction writes before it takes its place
	total   int64
	files   map[string]bool      // .log files, by path
	doomed  map[string]time.Time // .deleted files and when each was first seen
}

// sampler takes samples.
type sampler struct {
	s      *server
	doomed map[string]time.Time
}

func (m *sampler) take() (sample, error) {
	x := sample{at: time.Now()}
	var err error
	if x.disk, err = m.look(x.at); err != nil {
		return x, err
	}
	figures, err := m.s.figures()
	if err != nil {
		return x, err
	}
	x.heap, x.goroutines = int64(figures["go_memstats_heap_inuse_bytes"]), int(figures["go_goroutines"])
	x.cpu = figures["process_cpu_seconds_total"]
	x.cleaned = figures["sluice_log_cleaner_read_bytes_total"] + figures["sluice_log_cleaner_written_bytes_total"]
	x.runs = figures["sluice_log_cleaner_runs_total"]
	x.rss, x.fds = int64(figures["process_resident_memory_bytes"]), int(figures["process_open_fds"])
	return x, nil
}

// figures are the metrics without labels.
func (s *server) figures() (map[string]float64, error) {
	resp, err := s.admin.Get("http://broker/metrics")
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	figures := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			figures[name] = v
		}
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	return figures, lines.Err()
}

// look measures the data directory. Files come and go meanwhile.
func (m *sampler) look(now time.Time) (disk, error) {
	d := disk{live: map[string]int64{}, files: map[string]bool{}, doomed: map[string]time.Time{}}
	dirs, err := os.ReadDir(m.s.data)
	if err != nil {
		return d, err
	}
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(m.s.data, dir.Name()))
		if err != nil {
			continue // the topic was deleted just now
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				d.add(dir.Name(), f.Name(), info.Size(), now, m.doomed)
			}
		}
	}
	m.doomed = d.doomed
	return d, nil
}

func (d *disk) add(partition, name string, size int64, now time.Time, seen map[string]time.Time) {
	path := filepath.Join(partition, name)
	d.total += size
	switch {
	case strings.HasSuffix(name, ".deleted"):
		d.waiting += size
		d.doomed[path] = now
		if first, ok := seen[path]; ok {
			d.doomed[path] = first
		}
	case strings.HasSuffix(name, ".log"):
		d.live[partition] += size
		d.files[path] = true
	case strings.HasSuffix(name, ".cleaned"), strings.HasSuffix(name, ".swap"):
		d.beside += size
	}
}

// oldest is how long the file that has waited longest for its removal has.
func (d *disk) oldest(now time.Time) (age time.Duration) {
	for _, first := range d.doomed {
		age = max(age, now.Sub(first))
	}
	return age
}

// rolled counts the segments of dense topics that were begun since the sample before. Compaction makes no new names.
func (d *disk) rolled(before *disk) (n int) {
	for path := range d.files {
		_, known := before.live[filepath.Dir(path)]
		if known && !before.files[path] {
			n++
		}
	}
	return n
}
