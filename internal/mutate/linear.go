package main

const (
	linearizable = "TestLinearizable"
	metamorphic  = "TestMetamorphic"
)

// linear are bugs of a partition log that its answers show when many use it at once, or when only the settings differ.
var linear = []mutant{
	{
		name: "linear: readers see what is not durable", short: true,
		file: "log/append.go", pkg: inLog, tests: linearizable,
		old: "\t\tl.scheduleSync(false)\n\t\treturn\n", new: "\t\tl.scheduleSync(false)\n",
	},
	{
		name: "linear: the largest time is that of a batch that is not durable",
		file: "log/read.go", pkg: inLog, tests: linearizable + "|TestMaxTimeOfWhatIsVisible",
		old: "if s.next <= limit { // else", new: "if true { // else",
	},
	{
		name: "linear: who waits for a spoilt log is not answered", short: true,
		file: "log/sync.go", pkg: inLog, tests: "TestWaiterOfASpoiltLog",
		old: "\t\tlost, err = l.takeWaiters(maxOffset), l.lost()\n", new: "",
	},
	{
		name: "linear: segments below the log start are deleted before their producers are known",
		file: "log/open.go", pkg: inLog, tests: "TestProducersBelowAMovedStart",
		old: "bases[n+1] <= min(l.start, l.recovery)", new: "bases[n+1] <= l.start",
	},
	{
		name: "linear: old snapshots go before the recovery point is durable",
		file: "log/seal.go", pkg: inLog, tests: "TestSnapshotOfADurableRecoveryPoint",
		old: "if l.dir.slots.sync(n) == nil {", new: "if _ = n; true {",
	},
	{
		name: "linear: a retry is no duplicate after a restart",
		file: "log/producers_load.go", pkg: inLog, tests: linearizable,
		old: "\t\tl.producers, from = ps, o\n", new: "\t\tl.producers, from = ps, o\n\t\tclear(ps)\n",
	},
	{
		name: "metamorphic: a segment without records is as old as its file",
		file: "log/retain.go", pkg: inLog, tests: "TestRetentionOfEmptiedSegments",
		old: "if t, err := s.emptiedTime(); err != nil || t >= 0 {", new: "if t, err := s.emptiedTime(); err != nil {",
	},
	{
		name: "metamorphic: retention by size deletes one segment too many", short: true,
		file: "log/retain.go", pkg: inLog, tests: metamorphic,
		old: "excess >= s.size", new: "excess >= 0",
	},
	{
		name: "metamorphic: epochs of deleted records show",
		file: "log/log.go", pkg: inLog, tests: metamorphic,
		old: "l.epochs.from(l.start).end(", new: "l.epochs.end(",
	},
	{
		name: "metamorphic: a tombstone goes at once",
		file: "log/compact_filter.go", pkg: inLog, tests: metamorphic,
		old: "return !k.Tombstone || !f.expired", new: "return !k.Tombstone",
	},
	{
		name: "metamorphic: a read gives more than was asked for",
		file: "log/read.go", pkg: inLog, tests: metamorphic,
		old: "case v.limit == maxOffset && v.end-start <= max:", new: "case v.limit == maxOffset:",
	},
}
