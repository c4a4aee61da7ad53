package main

const (
	inBroker    = "./broker"
	readersTest = "TestReadersAndWhatGoes"
)

// brokers are bugs of the catalog, of what drives machines, and of what follows from their orders.
var brokers = []mutant{
	{
		name: "reply before the machine's log end is durable", short: true,
		file: "internal/coord/queue.go", pkg: "./internal/coord", tests: ".",
		old: "if !g.open {", new: "if false && !g.open {",
	},
	{
		name: "reply before the machine's log end is durable, seen by clients", short: true,
		file: "internal/coord/queue.go", pkg: inBroker, tests: powerCuts,
		old: "if !g.open {", new: "if false && !g.open {",
	},
	{
		name: "orders before the step is durable",
		file: "internal/coord/step.go", pkg: inBroker, tests: powerCuts,
		old: "\t\ts.queue.push(item{orders: e.Orders})", new: "\t\tgo s.orders(e.Orders)",
	},
	{
		name: "machine kept after a lost step",
		file: "internal/coord/reload.go", pkg: inBroker, tests: powerCuts,
		old: "\tif s.state == running {\n\t\ts.drop(cause)\n\t}", new: "\t_ = cause",
	},
	{
		name: "epoch raised in memory only", gate: true,
		file: "catalog/machine.go", pkg: inBroker, tests: powerCuts,
		old: "\te.Records = append(e.Records, epochRecord(s.Epoch))", new: "\tif s.Epoch == 0 {\n\t\te.Records = append(e.Records, epochRecord(s.Epoch))\n\t}",
	},
	{
		name: "producer ids not reserved",
		file: "catalog/machine.go", pkg: inBroker, tests: powerCuts,
		old: "producerIDsRecord(first + ev.N)", new: "producerIDsRecord(first)",
	},
	{
		name: "config change forgets the rest",
		file: "catalog/configs.go", pkg: inBroker, tests: powerCuts,
		old: "\t\tmaps.Copy(values, old)", new: "\t\t_ = old",
	},
	{
		name: "directory without an id left to the next topic",
		file: "broker/files.go", pkg: inBroker, tests: powerCuts,
		old: "f.ID != t.ID && !b.unfinished(f, t)", new: "f.ID != t.ID",
	},
	{
		name: "failed deletion forgotten",
		file: "broker/files.go", pkg: inBroker, tests: "TestDeletionIsTriedAgain",
		old: "\tif err != nil {\n\t\tlevel := slog.LevelDebug", new: "\tif false {\n\t\tlevel := slog.LevelDebug",
	},
	{
		name: "deletion forgotten although its rename is not durable",
		file: "broker/files.go", pkg: inBroker, tests: "TestDeletionIsTriedAgain",
		old: "err := b.dir.SettleDeletions()", new: "err := error(nil)",
	},
	{
		name: "retention believes a clock that jumps",
		file: "broker/retention_clock.go", pkg: inBroker, tests: "TestRetentionClock",
		old: "jump <= maxClockJump ||", new: "true ||",
	},
	{
		name: "files are closed under readers",
		file: "log/files.go", pkg: inBroker, tests: readersTest,
		old: "case s.refs.Load() > 1 || s.busy:", new: "case s.busy:",
	},
	{
		name: "readers pin nothing",
		file: "log/read.go", pkg: inBroker, tests: readersTest,
		old: "\ts.acquire()\n\treturn v, nil", new: "\treturn v, nil",
	},
	{
		name: "limits go by the wall clock",
		file: "broker/owners.go", pkg: inBroker, tests: "TestBrokerUnderASetClock",
		old: "stamp(t.Sub(processStart))", new: "stamp(t.Round(0).Sub(processStart))",
	},
	{
		name: "expired producers kept in memory for ever",
		file: "log/producers.go", pkg: inBroker, tests: "TestSoak",
		old: "if now-p.appended > expiration.Milliseconds() {\n\t\t\tdelete", new: "if false && now-p.appended > expiration.Milliseconds() {\n\t\t\tdelete",
	},
	{
		name: "room for files that others have taken",
		file: "log/read.go", pkg: inLog, tests: "TestManyReadersAtOnce",
		old: "if !l.reserveFiles(s.lacking(), l.dir.files.readLimit()) {", new: "if false {",
	},
	{
		name: "no room looked for where only indexes are opened",
		file: "log/files.go", pkg: inLog, tests: "TestIndexesNeedRoom",
		old: "\t\tn += 2\n", new: "\t\tn += 0\n",
	},
}
