package main

const (
	inLog     = "./log"
	powerCuts = "TestPowerCuts$"
)

// storage are bugs of the partition log: what is durable, what recovery makes of it, retention.
var storage = []mutant{
	{
		name: "no sync before the acknowledgement", gate: true, short: true,
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "if err := f.seg.file.Sync(); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "directory not synced", gate: true, short: true,
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "\tif err := l.dir.fs.SyncDir(l.path()); err != nil {\n\t\treturn fmt.Errorf(\"sync directory", new: "\tif err := error(nil); err != nil {\n\t\treturn fmt.Errorf(\"sync directory",
	},
	{
		name: "high watermark before the sync", gate: true, short: true,
		file: "log/append.go", pkg: inLog, tests: powerCuts,
		old: "\t\tl.scheduleSync(false)\n\t\treturn\n", new: "\t\tl.scheduleSync(false)\n",
	},
	{
		name: "duplicate acknowledged before the original is durable", gate: true, short: true,
		file: "log/append.go", pkg: inLog, tests: powerCuts,
		old: "if cfg.Durability == Fsync && l.durable < end {", new: "if cfg.Durability == Fsync && l.durable < end && !dup {",
	},
	{
		name: "parent directory not synced", gate: true,
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "if err := l.dir.fs.SyncDir(l.dir.path); err != nil {\n\t\t\treturn fmt.Errorf(\"sync directory", new: "if err := error(nil); err != nil {\n\t\t\treturn fmt.Errorf(\"sync directory",
	},
	{
		name: "window of four batches", gate: true,
		file: "log/producers.go", pkg: inLog, tests: "TestIdempotence",
		old: "const batchWindow = 5", new: "const batchWindow = 4",
	},
	{
		name: "window of six batches", gate: true,
		file: "log/producers.go", pkg: inLog, tests: "TestIdempotence",
		old: "const batchWindow = 5", new: "const batchWindow = 6",
	},
	{
		name: "sequence does not wrap", gate: true,
		file: "log/producers.go", pkg: inLog, tests: "TestSequenceWraps",
		old: "if seq == math.MaxInt32 {", new: "if seq == math.MinInt32 {",
	},
	{
		name: "recovery accepts a bad CRC", gate: true,
		file: "log/walk.go", pkg: inLog, tests: powerCuts + "|TestBitRot",
		old: "if !b.ValidCRC() {", new: "if false {",
	},
	{
		name: "recovery truncates below the durable offset", gate: true,
		file: "log/recover.go", pkg: inLog, tests: "TestBitRot",
		old: "if r.known && max(r.expected, l.start) < r.slot.durable {", new: "if false {",
	},
	{
		name: "recovery takes a log that is too short", gate: true,
		file: "log/recover.go", pkg: inLog, tests: "TestBitRot",
		old: "case i+1 == len(segs) && r.known && r.expected < r.slot.durable:", new: "case false:",
	},
	{
		name: "durable offset recorded before the sync", gate: true,
		file: "log/append.go", pkg: inLog, tests: powerCuts,
		old: "\tl.end = seg.next\n\treturn nil\n", new: "\tl.end = seg.next\n\tif l.slotIndex >= 0 {\n\t\td := l.durable\n\t\tl.durable = l.end\n\t\tl.dir.slots.note(l.slotIndex, l.slot())\n\t\tl.durable = d\n\t}\n\treturn nil\n",
	},
	{
		name: "log start shown before it is durable", gate: true,
		file: "log/sync.go", pkg: inLog, tests: powerCuts,
		old: "\tif err := l.dir.slots.sync(n); err != nil {\n", new: "\tif _ = n; false {\n\t\tvar err error\n",
	},
	{
		name: "removal of the clean mark not synced", gate: true,
		file: "log/dir.go", pkg: inLog, tests: powerCuts,
		old: "if err = d.fs.Remove(name); err == nil {\n\t\terr = d.fs.SyncDir(d.path)\n\t}", new: "err = d.fs.Remove(name)",
	},
	{
		name: "clean mark not synced",
		file: "log/dir.go", pkg: inLog, tests: powerCuts,
		old: "if err := mark.finish(); err != nil {\n\t\treturn err\n\t}\n\tif err := d.fs.SyncDir(d.path); err != nil {", new: "if err := mark.finish(); err != nil {",
	},
	{
		name: "clean mark renamed before it is synced", gate: true,
		file: "log/mark.go", pkg: inLog, tests: powerCuts,
		old: "if err := m.file.Sync(); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "producers not in the clean mark", gate: true,
		file: "log/mark.go", pkg: inLog, tests: powerCuts,
		old: "epochs: l.epochs, producers: l.producers}", new: "epochs: l.epochs, producers: producers{}}",
	},
	{
		name: "clean mark forgets who was not used",
		file: "log/dir.go", pkg: inLog, tests: "TestMarkKeeps",
		old: "\tif err := d.last.copyTo(mark); err != nil {\n\t\treturn err\n\t}\n", new: "",
	},
	{
		name: "last segment of an earlier stop kept in the clean mark",
		file: "log/open.go", pkg: inLog, tests: "TestMarkKeeps",
		old: "\t\tl.dir.last.drop(slotKey{l.id, l.partition})\n", new: "",
	},
	{
		name: "failed sync tried again", gate: true,
		file: "log/sync.go", pkg: inLog, tests: powerCuts + "|TestFailedSync",
		old: "if err := f.seg.file.Sync(); err != nil {", new: "err := f.seg.file.Sync()\n\t\tif err != nil {\n\t\t\terr = f.seg.file.Sync()\n\t\t}\n\t\tif err != nil {",
	},
	{
		name: "failed sync keeps the appends", gate: true,
		file: "log/sync.go", pkg: inLog, tests: "TestFailedSync",
		old: "if err := l.cut(); err != nil {", new: "l.state = stateOpen\n\tif err := error(nil); err != nil {",
	},
	{
		name: "snapshot of a segment that was cut",
		file: "log/sync.go", pkg: inLog, tests: "TestSnapshotAfterCut",
		old: "\t\tl.unseal(l.active())\n\t\tl.toSeal(l.active(), l.copyProducers(l.cfg.Load(), time.Now()))\n", new: "",
	},
	{
		name: "recovery does not sync what it shows", gate: true,
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
		old: "if err := l.writeProducers(s.seg.next, s.producers); err != nil {", new: "if err := l.writeProducers(s.seg.base, s.producers); err != nil {",
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
		name: "retention deletes before the new start is durable", gate: true,
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
		file: "log/open.go", pkg: inLog, tests: "TestDeletedFilesWait",
		old: "strings.HasSuffix(e.Name(), deletedSuffix) ||", new: "strings.HasSuffix(e.Name(), tornSuffix) && false ||",
	},
	{
		name: "log taken back although shown records are lost",
		file: "log/reopen.go", pkg: inLog, tests: "TestFrozenLogThatLostRecords",
		old: "n.end < l.visible.offset", new: "false",
	},
	{
		name: "durable offsets synced again after a failed sync",
		file: "log/slots.go", pkg: inLog, tests: "TestSlotsOutliveErrors",
		old: "\tparts, anew := s.takeChanged(), s.failed != nil\n", new: "\ts.whole = s.whole && s.failed == nil\n\tparts, anew := s.takeChanged(), false\n",
	},
	{
		name: "recovery knows leader epochs of segments that it left out",
		file: "log/recover.go", pkg: inLog, tests: "TestPowerCutsInKnownLives",
		old: "\tif err := l.loadEpochs(0, r.slot); err != nil { // not", new: "\tif err := error(nil); err != nil { // not",
	},
	{
		name: "slots are written with the log locked",
		file: "log/sync.go", pkg: inLog, tests: "TestSlotWritesHoldNobodyUp",
		old: "\tl.dir.slots.note(l.slotIndex, l.slot())\n", new: "\t_ = l.dir.slots.sync(l.dir.slots.put(l.slotIndex, l.slot()))\n",
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
		name: "sealed segments are given out unchecked", gate: true, short: true,
		file: "log/read.go", pkg: inLog, tests: "TestDamagedRange",
		old: "\t\terr = v.vouch(&r)\n", new: "\t\terr = nil\n",
	},
	{
		name: "a lost segment is not noticed",
		file: "log/open.go", pkg: inLog, tests: "TestListedSegments",
		old: "\tbases = l.expect(bases, &m, sl.recovery)\n", new: "",
	},
	{
		name: "repair gives lost offsets out again",
		file: "log/repair.go", pkg: inLog, tests: "TestRepair",
		old: "\t\t\tw.gap(x.offset, x.end, x.epoch)\n", new: "",
	},
	{
		name: "acknowledged before the sync", short: true, gate: true,
		file: "log/append.go", pkg: inLog, tests: powerCuts,
		old: "\t\ta.Ticket = Ticket{l, end, l.gen}\n", new: "\t\ta.Ticket = Ticket{}\n",
	},
	{
		name: "renamed before it is synced", gate: true,
		file: "log/slots.go", pkg: inLog, tests: "TestEveryOperationFails|TestComesBackByItself",
		old: "\tif _, err = f.WriteAt(data, 0); err == nil {\n\t\terr = f.Sync()\n\t}\n\tif err == nil {\n\t\terr = fs.Rename(name+tempSuffix, name)\n\t}\n",
		new: "\tif _, err = f.WriteAt(data, 0); err == nil {\n\t\terr = fs.Rename(name+tempSuffix, name)\n\t}\n",
	},
	{
		name: "retention deletes the active segment", gate: true,
		file: "log/retain.go", pkg: inLog, tests: powerCuts + "|TestRetain$",
		old: "\tcase n > 0 && n == len(l.segs):\n\t\terr = l.rollExpired(now)\n", new: "\tcase n > 0 && n == len(l.segs):\n\t\tn--\n\t\t_, err = l.condemn(l.active())\n",
	},
	{
		name: "repair takes an error of the disk for damage",
		file: "log/damage.go", pkg: inLog, tests: "TestRepairIsNotMisled",
		old: "\t\treturn nil, ignoreBad(err)\n", new: "\t\treturn nil, nil\n",
	},
}
