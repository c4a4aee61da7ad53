package main

const (
	inGroup = "./group"
	lives   = "TestRandomLives"
)

// groups are bugs of consumer groups.
var groups = []mutant{
	{
		name: "partition given before it is given back", short: true,
		file: "group/consumer_reconcile.go", pkg: inGroup, tests: lives,
		old: "return d.free(p, c.id) })", new: "return true })",
	},
	{
		name: "commit of an old generation taken", short: true,
		file: "group/group.go", pkg: inGroup, tests: lives,
		old: "\treturn nil, kproto.IllegalGeneration\n", new: "\treturn m, kproto.NoError\n",
	},
	{
		name: "commit of an old member epoch taken",
		file: "group/consumer_epochs.go", pkg: inGroup, tests: lives,
		old: "ok && f.epoch >= epoch", new: "true || ok && f.epoch >= epoch",
	},
	{
		name: "an upgrade forgets what members are giving back",
		file: "group/consumer_migrate.go", pkg: inGroup, tests: lives,
		old: "c.state, c.revoking = memberRevoking, owned", new: "",
	},
	{
		name: "an id that finds no room is waited for",
		file: "group/join.go", pkg: inGroup, tests: "TestTranscripts",
		old: "\t\tm.removePending(p)\n\t\tm.completeIfJoined(g)\n", new: "",
	},
	{
		name: "the assignment interval holds for members and not for topics",
		file: "group/consumer_topics.go", pkg: inGroup, tests: "TestTranscripts",
		old: "|| !m.mayAssign(d) {", new: "{",
	},
	{
		name: "sessions go by the wall clock",
		file: "group/clock.go", pkg: inGroup, tests: "TestGroupsUnderASetClock",
		old: "\t\tc.base = now\n", new: "\t\tc.base = now.Round(0)\n",
	},
}
