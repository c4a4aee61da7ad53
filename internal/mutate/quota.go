package main

// quotas are bugs of client quotas.
var quotas = []mutant{
	{
		name: "quota: a batch larger than the quota is held for ever",
		file: "throttle/quota/meter.go", pkg: "./throttle/quota", tests: "TestTake|TestLongRun",
		old: "over := m.level + min(n, full) - full", new: "over := m.level + n - full",
	},
	{
		name: "quota: what is over the window is forgotten",
		file: "throttle/quota/meter.go", pkg: "./throttle/quota", tests: "TestUse|TestLongRun",
		old: "\tm.level += n\n", new: "\tm.level = min(m.level+n, 2*m.full())\n",
	},
	{
		name: "quota: all client ids under a default share a meter",
		file: "throttle/quota/rules.go", pkg: "./throttle/quota", tests: "TestSharing",
		old: "\t\tkey.client = client\n", new: "\t\tkey.client = rest(rule.ClientID)\n",
	},
	{
		name: "quota: a new client id is a new meter, without bound",
		file: "throttle/quota/limits.go", pkg: "./throttle/quota", tests: "TestManyNames",
		old: "\t\tif l.crowd >= MaxMeters {\n\t\t\tkey.client", new: "\t\tif false {\n\t\t\tkey.client",
	},
	{
		name: "quota: a client that waited is held once more",
		file: "broker/quota_conn.go", pkg: inBroker, tests: "TestNotHeldTwice",
		old: "\tq.conn.Mute(wait)\n", new: "\tq.conn.Mute(2 * wait)\n",
	},
	{
		name: "quota: the broker trusts that the client waits",
		file: "broker/quota_conn.go", pkg: inBroker, tests: "TestFetchQuota|TestProduceQuota",
		old: "\tq.conn.Mute(wait)\n", new: "",
	},
	{
		name: "quota: what a quota kept back stays charged to the limits of dispatch",
		file: "broker/fetch_quota.go", pkg: inBroker, tests: "TestQuotaRefundsDispatch",
		old: "\tf.settle(server.SentNothing)\n", new: "\tf.settle(server.SentAll)\n",
	},
	{
		name: "quota: a fetch waits for more than its quota ever allows",
		file: "broker/fetch_quota.go", pkg: inBroker, tests: "TestFetchQuotaCapsMinBytes",
		old: "f.minBytes = min(f.minBytes, f.maxBytes)", new: "_ = f.minBytes",
	},
	{
		name: "quota: a removed quota is there again after a restart",
		file: "catalog/quotas.go", pkg: inBroker, tests: "TestQuotasPersist",
		old: "\t\tdelete(s.quotas, e)\n", new: "",
	},
	{
		name: "quota: a muted client that went away is kept",
		file: "internal/server/reader.go", pkg: "./internal/server", tests: "TestMutedClientGoesAway",
		old: "if c.t.hungUp(!c.in.empty()) {", new: "if false {",
	},
}
