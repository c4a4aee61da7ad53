package main

const powerCutsInImport = "TestPowerCutsInImport$"

// imports are bugs of `sluice log import`.
var imports = []mutant{
	{
		name: "import: segment not synced", short: true,
		file: "log/import.go", pkg: inBroker, tests: powerCutsInImport,
		old: "\tif err := s.file.Sync(); err != nil {", new: "\tif err := error(nil); err != nil {",
	},
	{
		name: "import: directory of a partition not synced",
		file: "log/import.go", pkg: inBroker, tests: powerCutsInImport,
		old: "[]string{st.path, st.dir.path}", new: "[]string{st.dir.path}",
	},
	{
		name: "import: slot not durable before the topic exists",
		file: "log/import.go", pkg: inBroker, tests: powerCutsInImport,
		old: "\treturn d.slots.sync(d.slots.put(index, sl))", new: "\td.slots.put(index, sl)\n\treturn nil",
	},
	{
		name: "import: topics before their partitions", short: true,
		file: "broker/import.go", pkg: inBroker, tests: powerCutsInImport,
		old: "\terr := m.stage(topics)\n\tif err == nil {\n\t\terr = m.importOffsets(ctx)\n\t}\n\tif err == nil {\n\t\terr = m.record(ctx, topics)\n\t}",
		new: "\terr := m.record(ctx, topics)\n\tif err == nil {\n\t\terr = m.importOffsets(ctx)\n\t}\n\tif err == nil {\n\t\terr = m.stage(topics)\n\t}",
	},
	{
		name: "import: topics before their committed offsets",
		file: "broker/import.go", pkg: inBroker, tests: powerCutsInImport,
		old: "\t\terr = m.importOffsets(ctx)\n\t}\n\tif err == nil {\n\t\terr = m.record(ctx, topics)\n\t}",
		new: "\t\terr = m.record(ctx, topics)\n\t}\n\tif err == nil {\n\t\terr = m.importOffsets(ctx)\n\t}",
	},
	{
		name: "import: not finished by the next start",
		file: "broker/files.go", pkg: inBroker, tests: powerCutsInImport,
		old: "if err := b.settleImports(); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "import: the epoch stays below Kafka's",
		file: "catalog/import.go", pkg: "./catalog", tests: "TestTranscripts",
		old: "if ev.Epoch > m.epoch {", new: "if ev.Epoch > m.epoch+1000 {",
	},
	{
		name: "import: records of aborted transactions come along",
		file: "log/kafka_survey.go", pkg: "./cmd/sluice", tests: "TestLogImportLost",
		old: "return s.txns.isAborted(h) || open", new: "return open",
	},
}
