package main

const (
	inLog     = "./log"
	inBroker  = "./broker"
	inGroup   = "./group"
	powerCuts = "TestPowerCuts$"
	lives     = "TestRandomLives"
)

var mutants = []mutant{
	{
		name: "no sync before the acknowledgement", short: true,
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "if err := f.seg.file.Sync(); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "directory not synced", short: true,
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "\tif err := l.dir.fs.SyncDir(l.path()); err != nil {\n\t\treturn fmt.Errorf(\"sync directory", new: "\tif err := error(nil); err != nil {\n\t\treturn fmt.Errorf(\"sync directory",
	},
	{
		name: "high watermark before the sync", short: true,
		file: "log/append.go", pkg: inLog, tests: powerCuts,
		old: "\t\tl.scheduleSync(false)\n\t\treturn\n", new: "\t\tl.scheduleSync(false)\n",
	},
	{
		name: "duplicate acknowledged before the original is durable", short: true,
		file: "log/append.go", pkg: inLog, tests: powerCuts,
		old: "if cfg.Durability == Fsync && l.durable < end {", new: "if cfg.Durability == Fsync && l.durable < end && !dup {",
	},
	{
		name: "reply before the machine's log end is durable", short: true,
		file: "internal/coord/queue.go", pkg: "./internal/coord", tests: ".",
		old: "if !g.open {", new: "if false && !g.open {",
	},
	{
		name: "parent directory not synced",
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "if err := l.dir.fs.SyncDir(l.dir.path); err != nil {\n\t\t\treturn fmt.Errorf(\"sync directory", new: "if err := error(nil); err != nil {\n\t\t\treturn fmt.Errorf(\"sync directory",
	},
	{
		name: "window of four batches",
		file: "log/producers.go", pkg: inLog, tests: "TestIdempotence",
		old: "const batchWindow = 5", new: "const batchWindow = 4",
	},
	{
		name: "window of six batches",
		file: "log/producers.go", pkg: inLog, tests: "TestIdempotence",
		old: "const batchWindow = 5", new: "const batchWindow = 6",
	},
	{
		name: "sequence does not wrap",
		file: "log/producers.go", pkg: inLog, tests: "TestSequenceWraps",
		old: "if seq == math.MaxInt32 {", new: "if seq == math.MinInt32 {",
	},
	{
		name: "recovery accepts a bad CRC",
		file: "log/walk.go", pkg: inLog, tests: powerCuts + "|TestBitRot",
		old: "if !b.ValidCRC() {", new: "if false {",
	},
	{
		name: "recovery truncates below the durable offset",
		file: "log/recover.go", pkg: inLog, tests: "TestBitRot",
		old: "if r.known && r.expected < r.slot.durable {", new: "if false {",
	},
	{
		name: "recovery takes a log that is too short",
		file: "log/recover.go", pkg: inLog, tests: "TestBitRot",
		old: "case i+1 == len(segs) && r.known && r.expected < r.slot.durable:", new: "case false:",
	},
	{
		name: "durable offset recorded before the sync",
		file: "log/append.go", pkg: inLog, tests: powerCuts,
		old: "\tl.end = seg.next\n\treturn nil\n", new: "\tl.end = seg.next\n\tif l.slotIndex >= 0 {\n\t\td := l.durable\n\t\tl.durable = l.end\n\t\tl.dir.slots.note(l.slotIndex, l.slot())\n\t\tl.durable = d\n\t}\n\treturn nil\n",
	},
	{
		name: "log start shown before it is durable",
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "\tif err == nil {\n\t\terr = l.dir.slots.sync(n)\n\t}\n", new: "\t_ = n\n",
	},
	{
		name: "removal of the clean mark not synced",
		file: "log/dir.go", pkg: inLog, tests: powerCuts,
		old: "if err = d.fs.Remove(name); err == nil {\n\t\t\terr = d.fs.SyncDir(d.path)\n\t\t}", new: "err = d.fs.Remove(name)",
	},
	{
		name: "clean mark not synced",
		file: "log/dir.go", pkg: inLog, tests: powerCuts,
		old: "if err := writeSynced(d.fs, filepath.Join(d.path, cleanFile), nil); err != nil {\n\t\treturn err\n\t}\n\tif err := d.fs.SyncDir(d.path); err != nil {", new: "if err := writeSynced(d.fs, filepath.Join(d.path, cleanFile), nil); err != nil {",
	},
	{
		name: "failed sync tried again",
		file: "log/sync.go", pkg: inLog, tests: powerCuts + "|TestFailedSync",
		old: "if err := f.seg.file.Sync(); err != nil {", new: "err := f.seg.file.Sync()\n\t\tif err != nil {\n\t\t\terr = f.seg.file.Sync()\n\t\t}\n\t\tif err != nil {",
	},
	{
		name: "failed sync keeps the appends",
		file: "log/sync.go", pkg: inLog, tests: "TestFailedSync",
		old: "if err := l.cut(); err != nil {", new: "l.state = stateOpen\n\tif err := error(nil); err != nil {",
	},
	{
		name: "snapshot of a segment that was cut",
		file: "log/sync.go", pkg: inLog, tests: "TestSnapshotAfterCut",
		old: "\t\tl.unseal(l.active())\n\t\tl.toSeal(l.active(), l.copyProducers(l.cfg.Load(), time.Now()))\n", new: "",
	},
	{
		name: "recovery does not sync what it shows",
		file: "log/recover.go", pkg: inLog, tests: powerCuts,
		old: "\treturn s.file.Sync()\n", new: "\treturn nil\n",
	},
	{
		name: "recovery point before the side files are written",
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "\tif len(l.sealing) > 0 {\n\t\treturn l.sealing[0].seg.base\n\t}\n", new: "",
	},
	{
		name: "deletion not synced",
		file: "log/dir.go", pkg: inLog, tests: powerCuts,
		old: "if err := d.fs.SyncDir(d.path); err != nil {\n\t\td.unsettled.Store(true)\n\t\treturn storageError(\"sync data directory\", err)\n\t}\n\tif err := vfs.RemoveAll", new: "if err := vfs.RemoveAll",
	},
	{
		name: "producer snapshot at the wrong offset",
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "if err := l.writeProducers(s.seg.base, s.seg.next, s.producers); err != nil {", new: "if err := l.writeProducers(s.seg.base, s.seg.base, s.producers); err != nil {",
	},
	{
		name: "what a killed run left unsynced is not written anew",
		file: "log/recover.go", pkg: inLog, tests: "TestKillAfterFailedSync",
		old: "if err := r.renew(s, pos); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "damage forgotten at a clean stop",
		file: "log/sync.go", pkg: inLog, tests: "TestDamageOutlivesAStop",
		old: "return l.damage == nil, err", new: "return true, err",
	},
	{
		name: "old mode's appends left waiting",
		file: "log/log.go", pkg: inLog, tests: "TestModeChangeAnswers",
		old: "if l.state == stateOpen && l.durable < l.end {\n\t\tl.scheduleSync(true)", new: "if l.state == stateOpen && c.Durability == Fsync && l.durable < l.end {\n\t\tl.scheduleSync(true)",
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
		name: "epoch raised in memory only",
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
		name: "retention deletes before the new start is durable",
		file: "log/retain.go", pkg: inLog, tests: powerCuts,
		old: "if err := d.slots.sync(last); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "retention of a segment that is not old enough",
		file: "log/retain.go", pkg: inLog, tests: "TestRetain$",
		old: "uint64(nowMs)-uint64(newest) > uint64(retentionMs)", new: "uint64(nowMs)-uint64(newest) >= uint64(retentionMs)",
	},
	{
		name: "deleted files left by a crash are kept",
		file: "log/recover.go", pkg: inLog, tests: "TestDeletedFilesWait",
		old: "strings.HasSuffix(e.Name(), deletedSuffix) ||", new: "strings.HasSuffix(e.Name(), tornSuffix) && false ||",
	},
	{
		name: "retention believes a clock that jumps",
		file: "broker/retention_clock.go", pkg: inBroker, tests: "TestRetentionClock",
		old: "jump <= maxClockJump ||", new: "true ||",
	},
	{
		name: "log taken back although shown records are lost",
		file: "log/reopen.go", pkg: inLog, tests: "TestFrozenLogThatLostRecords",
		old: "n.end < l.visible.offset", new: "false",
	},
	{
		name: "durable offsets synced again after a failed sync",
		file: "log/slots.go", pkg: inLog, tests: "TestComesBackByItself",
		old: "\tif s.failed != nil {\n\t\treturn s.renewFile(upTo)\n\t}\n", new: "",
	},
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
		name: "producers take what the ballast leaves",
		file: "log/append.go", pkg: inLog, tests: "TestFullDisk$",
		old: "\tif !o.Internal {\n\t\tif err := l.dir.space", new: "\tif false {\n\t\tif err := l.dir.space",
	},
	{
		name: "appends come back when only the ballast fits",
		file: "log/space.go", pkg: inLog, tests: "TestFullDisk$",
		old: "room.Usable >= 2*s.size", new: "true",
	},
	{
		name: "recovery point before the list of sealed segments",
		file: "log/sync.go", pkg: inLog, tests: "TestVerifyAfterPowerCuts|TestListedSegments",
		old: "\tif err := l.writeManifest(segs); err != nil {", new: "\tif err := error(nil); err != nil {",
	},
	{
		name: "sealed segments are given out unchecked", short: true,
		file: "log/read.go", pkg: inLog, tests: "TestDamagedRange",
		old: "\t\terr = v.vouch(&r)\n", new: "\t\terr = nil\n",
	},
	{
		name: "a lost segment is not noticed",
		file: "log/recover.go", pkg: inLog, tests: "TestListedSegments",
		old: "\tbases = l.expect(bases, &m, sl.recovery)\n", new: "",
	},
	{
		name: "repair gives lost offsets out again",
		file: "log/repair.go", pkg: inLog, tests: "TestRepair",
		old: "\t\t\tw.gap(x.offset, x.end, x.epoch)\n", new: "",
	},
}
