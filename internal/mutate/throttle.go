package main

const inThrottle = "./throttle"

// throttling are bugs that dispatch throttling has had elsewhere, or nearly had here.
var throttling = []mutant{
	{
		name: "debt forgiven at the end of a window", short: true,
		file: "throttle/tape.go", pkg: inThrottle, tests: "TestOverDelivery|TestDeliveredByWindow",
		old: "end := min(v.used()+n, v.floor+s.pace.units+s.pace.debt)", new: "end := min(v.used()+n, v.floor+s.pace.units)",
	},
	{
		name: "a plan that others have overtaken is taken whole", short: true,
		file: "throttle/tape.go", pkg: inThrottle, tests: "TestAllOrNothing",
		old: "if v.balance() <= before {", new: "if v.balance() <= 0 {",
	},
	{
		name: "lowering and raising a limit mints allowance",
		file: "throttle/tape.go", pkg: inThrottle, tests: "TestChangeOfPace",
		old: "\t\tused += old.change.forgiven\n", new: "",
	},
	{
		name: "a late refund takes from the new window",
		file: "throttle/tape.go", pkg: inThrottle, tests: "TestLateRefund",
		old: "n = min(m.n, m.end-v.floor, s.carried)", new: "n = min(m.n, m.end-v.floor)",
	},
	{
		name: "first come, first served",
		file: "throttle/crowd.go", pkg: inThrottle, tests: "TestSlowPoller",
		old: "min(ahead, rivals.level(cl, v.balance()))-cl.service), readyAt", new: "ahead+v.balance()), readyAt",
	},
	{
		name: "whoever is behind may take a whole window",
		file: "throttle/crowd.go", pkg: inThrottle, tests: "TestEveryWindowIsShared",
		old: "min(ahead, rivals.level(cl, v.balance()))-cl.service", new: "ahead-cl.service",
	},
	{
		name: "a limit changes between the refusal and the wait",
		file: "throttle/watch.go", pkg: inThrottle, tests: "TestChangeBeforeTheWait",
		old: "if uint32(c.home.version.Load()) != r.version {", new: "if false {",
	},
	{
		name: "the turn is not passed on",
		file: "throttle/watch.go", pkg: inThrottle, tests: "TestNoMoreAreWoken",
		old: "if cr.woken == 0 && len(cr.waiting.items) > 0 {", new: "if false {",
	},
	{
		name: "a dropped counter forgets its debt",
		file: "throttle/partition.go", pkg: inThrottle, tests: "TestSweep",
		old: "v.used() > v.floor || c.waitedFor()", new: "v.used() < 0 || c.waitedFor()",
	},
	{
		name: "who was invited and has not looked yet is forgotten",
		file: "throttle/crowd.go", pkg: inThrottle, tests: "TestLongWaitsKeepTheirTurn",
		old: "if cl.first == nil && cl.invited == 0 {", new: "if cl.first == nil {",
	},
	{
		name: "what claims have had grows for ever",
		file: "throttle/crowd.go", pkg: inThrottle, tests: "TestThousandsJoinAfterWeeks",
		old: "cr.active.items[0].service < highService {", new: "true {",
	},
	{
		name: "a deleted topic's limits stay", short: true,
		file: "throttle/topic.go", pkg: inBroker, tests: "TestNothingStaysOfWhatIsGone",
		old: "delete(x.home.topics, x)", new: "_ = x.home.topics",
	},
	{
		name: "claims are gone over again when clocks differ",
		file: "throttle/crowd.go", pkg: inThrottle, tests: "TestClaimsAreSweptOnceAWindow",
		old: "if v.begins() <= cr.swept {", new: "if v.begins() == cr.swept {",
	},
	{
		name: "a list of batches is planned as one and taken though others were first", short: true,
		file: "throttle/plan.go", pkg: inThrottle, tests: "TestAddAllNeverPassesTheLine",
		old: "p.before = Cost{max(0, counted[messages]-1), max(0, counted[bytes]-1)}", new: "p.before = Cost{}",
	},
	{
		name: "a fetch into a compacted batch is charged for what it has had",
		file: "log/trim.go", pkg: inLog, tests: "TestAskedInTheMiddle",
		old: "h.Records = t.r.asked(h)", new: "_ = t.r.asked",
	},
	{
		name: "the count of a range takes a control batch for a record",
		file: "log/lacks.go", pkg: inLog, tests: "TestRecordsOfRanges",
		old: "\tif h.Control() {\n\t\treturn offsets\n\t}\n", new: "",
	},
	{
		name: "the count of a range does not know what the first read found",
		file: "log/check.go", pkg: inLog, tests: "TestRecordsOfRanges",
		old: "\t\ts.lacks.add(good, lack)\n", new: "\t\t_ = lack\n",
	},
	{
		name: "the count of a range does not know what the scrubber found",
		file: "log/scrub.go", pkg: inLog, tests: "TestRecordsOfRanges",
		old: "t.live.lacks.add(at, lackOf(b))", new: "_, _ = at, b",
	},
	{
		name: "a range's batches are counted with those that have no record",
		file: "log/tally.go", pkg: inLog, tests: "TestRecordsOfRanges",
		old: "return h.Count() > 0 && !h.Control()", new: "return h.Count() > 0",
	},
	{
		name: "a batch is counted as often as it is met", short: true,
		file: "log/tally.go", pkg: inLog, tests: "TestTally|TestRecordsOfRanges",
		old: "if b.first != 0 && int64(b.until) == pos-k*tallyBlock {", new: "if b.first != 0 {",
	},
	{
		name: "the batches that the first read found are not counted",
		file: "log/check.go", pkg: inLog, tests: "TestWhereBatchesAreKnown",
		old: "\t\ts.tally.add(good, size, counted)\n", new: "\t\t_ = counted\n",
	},
	{
		name: "what is counted of batches outlives the open files",
		file: "log/files.go", pkg: inLog, tests: "TestWhereBatchesAreKnown",
		old: "\ts.tally.forget()\n", new: "",
	},
	{
		name: "a refund after a shorter period comes out of the new one",
		file: "throttle/tape.go", pkg: inThrottle, tests: "TestRefundAfterShorterPeriod",
		old: "(v.window == 0 || c == nil || c.at < at)", new: "(true || c == nil || c.at < at)",
	},
	{
		name: "an answer without room for more is taken for one that has caught up",
		file: "broker/fetch_limits.go", pkg: inBroker, tests: "TestSmallAnswersKeepTheirShare",
		old: "\td.plan.More = d.plan.More || p.rng.Next < limit\n", new: "",
	},
	{
		name: "who is invited and waits for more data keeps its turn",
		file: "broker/fetch_limits.go", pkg: inBroker, tests: "TestTurnIsPassedOn",
		old: "\tl.watch.Cancel(f.clock())\n\treturn true\n", new: "\treturn true\n",
	},
	{
		name: "a fetch that is planned anew counts its first plan too",
		file: "broker/01_fetch.go", pkg: inBroker, tests: "TestOneAnswerAWindow",
		old: "f.now, f.ahead, f.avail = 0, throttle.Cost{}, 0", new: "f.now, f.avail = 0, 0",
	},
	{
		name: "use that has moved is given back where it was taken",
		file: "broker/fetch_limits.go", pkg: inBroker, tests: "TestUseThatMovedIsNotGivenBack",
		old: "\tif u.sub != name {\n\t\treturn false\n\t}\n\tu.use", new: "\tu.use",
	},
}
