package coord

import "sluice/internal/machine"

// SEAM FILE: the old names, until broker uses package machine.
type (
	Machine = machine.Machine
	Record  = machine.Record
	Time    = machine.Time
)
