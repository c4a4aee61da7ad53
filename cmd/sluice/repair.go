package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"sluice/internal/vfs"
	"sluice/log"
)

type logRepairCmd struct {
	outputFlag `embed:""`

	Execute bool   `help:"Do it. Without this nothing is written."`
	Dir     string `arg:"" help:"The data directory, or a partition's directory in it. No broker may be running on it."`
}

// Run prints what is cut out, and fails if there is damage left.
func (c *logRepairCmd) Run(s *streams) error {
	done, err := log.Repair(vfs.Disk{}, filepath.Clean(c.Dir), c.Execute)
	if err != nil {
		return unchecked{fmt.Errorf("%s could not be repaired: %w", c.Dir, err)}
	}
	if err := c.print(s.out, done, func(w io.Writer) { repairTable(w, done) }); err != nil {
		return err
	}
	switch {
	case len(done.Left) > 0:
		return errors.New("damage is left that repair can do nothing about")
	case !done.Executed && len(done.Losses) > 0:
		return errors.New("nothing was written: --execute gives these offsets up")
	}
	return nil
}

func repairTable(w io.Writer, r *log.Repaired) {
	if len(r.Losses)+len(r.Left) == 0 {
		fmt.Fprintln(w, "nothing to repair")
		return
	}
	row(w, "PARTITION", "OFFSETS", "FILE", "BYTES", "REASON", "KEPT IN")
	for _, l := range r.Losses {
		bytes := "-"
		if l.Position >= 0 {
			bytes = fmt.Sprintf("%d at %d", l.Bytes, l.Position)
		}
		kept := "-"
		if l.Kept != "" {
			kept = filepath.Base(l.Kept)
		}
		row(w, filepath.Base(l.Directory), fmt.Sprintf("%d-%d", l.Offset, l.End-1), filepath.Base(l.File), bytes, l.Reason, kept)
	}
	for _, f := range r.Left {
		fmt.Fprintln(w, finding(f))
	}
}
