package main

const compactionCrashes = "TestPowerCutsInCompaction$|TestCompactionOnAFailingDisk"

// compaction are bugs of the cleaner and of its swap of files.
var compaction = []mutant{
	{
		name: "compaction: cleaned segment not synced", short: true,
		file: "log/compact_write.go", pkg: inLog, tests: compactionCrashes,
		old: "if err := w.seg.file.Sync(); err != nil {", new: "if err := error(nil); err != nil {",
	},
	{
		name: "compaction: swap not durable before the old segments go", gate: true, short: true,
		file: "log/compact_swap.go", pkg: inLog, tests: compactionCrashes,
		old: "\t\treturn storageError(\"rename cleaned segment\", err)\n\t}\n\tif err := l.dir.fs.SyncDir(l.path()); err != nil {\n\t\treturn storageError(\"sync partition directory\", err)\n\t}\n\tl.mu.Lock()",
		new: "\t\treturn storageError(\"rename cleaned segment\", err)\n\t}\n\tl.mu.Lock()",
	},
	{
		name: "compaction: offsets missing before the slot says so", short: true,
		file: "log/compact_swap.go", pkg: inLog, tests: compactionCrashes,
		old: "\tn := l.dir.slots.put(l.slotIndex, l.slot())\n\tl.mu.Unlock()\n\terr := l.dir.slots.sync(n)\n", new: "\tl.mu.Unlock()\n\terr := error(nil)\n",
	},
	{
		name: "compaction: the new segment beside old ones",
		file: "log/compact_swap.go", pkg: inLog, tests: compactionCrashes,
		old: "\tif err := list(); err != nil {\n\t\treturn err\n\t}\n\tif err := fs.SyncDir(l.path()); err != nil {", new: "\tif err := list(); err != nil {\n\t\treturn err\n\t}\n\tif err := error(nil); err != nil {",
	},
	{
		name: "compaction: the list of sealed segments keeps the old ones",
		file: "log/compact_swap.go", pkg: inLog, tests: compactionCrashes,
		old: "\tif err := list(); err != nil {", new: "\tif err := error(nil); err != nil {",
	},
	{
		name: "compaction: an interrupted swap is thrown away", short: true,
		file: "log/compact_swap.go", pkg: inLog, tests: compactionCrashes,
		old: "if strings.HasSuffix(e.Name(), cleanedSuffix) {", new: "if strings.HasSuffix(e.Name(), cleanedSuffix) || strings.HasSuffix(e.Name(), swapSuffix) {",
	},
	{
		name: "compaction: after an interrupted swap all counts as clean",
		file: "log/compact_swap.go", pkg: inLog, tests: compactionCrashes,
		old: "l.cleaned = missingBelow(end)", new: "l.cleaned = cleanPoint(end)",
	},
	{
		name: "compaction: clean up to the round's end after its first segment",
		file: "log/compact.go", pkg: inLog, tests: "TestCleaningThatIsCutOffGoesOn",
		old: "reached := min(r.end, end)", new: "reached := r.end",
	},
	{
		name: "compaction: the older record stays", short: true,
		file: "log/compact_map.go", pkg: inLog, tests: "TestCompactionModel",
		old: "offset < e.next-1", new: "offset > e.next-1",
	},
	{
		name: "compaction: keys beyond the map's room are forgotten", short: true,
		file: "log/compact.go", pkg: inLog, tests: "TestCompactionModel",
		old: "if full = !r.keys.put(k.Key, k.Offset); full {\n\t\t\t\tr.end = k.Offset\n\t\t\t}\n\t\t\treturn !full", new: "r.keys.put(k.Key, k.Offset)\n\t\t\treturn true",
	},
	{
		name: "compaction: tombstones go at once", gate: true, short: true,
		file: "log/compact_filter.go", pkg: inLog, tests: "TestTombstonesGoAfterTheirHorizon|TestCompactionModel",
		old: "return !k.Tombstone || !f.expired", new: "return !k.Tombstone",
	},
	{
		name: "compaction: a delete horizon without delete.retention.ms",
		file: "log/compact_filter.go", pkg: inLog, tests: "TestTombstonesGoAfterTheirHorizon",
		old: "r.o.Now.Add(r.cfg.DeleteRetention).UnixMilli()", new: "r.o.Now.UnixMilli()",
	},
	{
		name: "compaction: each run moves the horizon",
		file: "kproto/compact.go", pkg: inLog, tests: "TestTombstonesGoAfterTheirHorizon",
		old: "mark := !has && (", new: "mark := (!has || has) && (",
	},
	{
		name: "compaction: a segment ends before the next begins",
		file: "log/compact_filter.go", pkg: inLog, tests: "TestCompactionModel",
		old: "case !last && !r.lastOfProducer(b):", new: "case !r.lastOfProducer(b):",
	},
	{
		name: "compaction: the last batch of a living producer goes",
		file: "log/compact_filter.go", pkg: inLog, tests: "TestCompactionKeepsLivingProducers",
		old: "case !last && !r.lastOfProducer(b):", new: "case !last:",
	},
	{
		name: "compaction: aborted records count as newest",
		file: "log/compact.go", pkg: inLog, tests: "TestCompactTransactions|TestCompactAborted",
		old: ", r.txns.isAborted(b):", new: ":",
	},
	{
		name: "compaction: a marker goes before its data",
		file: "log/compact_filter.go", pkg: inLog, tests: "TestCompactTransactions",
		old: "f.mark = !r.started[id]", new: "f.mark = true",
	},
	{
		name: "compaction: past an open transaction", short: true,
		file: "log/compact.go", pkg: inLog, tests: "TestCompactTransactions",
		old: "r.sources[n-1].next > r.txns.unstable", new: "false",
	},
	{
		name: "compaction: a bad CRC is copied",
		file: "log/compact_read.go", pkg: inLog, tests: "TestDamagedSegmentIsNotCompacted",
		old: "if !b.ValidCRC() {", new: "if false {",
	},
	{
		name: "compaction: goes on when the partition is deleted",
		file: "log/log.go", pkg: inLog, tests: "TestCleaningEndsWithTheLog",
		old: "\tl.stopCleaning() // before", new: "\t// before",
	},
	{
		name: "compaction: retention removes files that are being replaced",
		file: "log/retain.go", pkg: inLog, tests: "TestStartMovesWhileCompacting",
		old: " && !l.segs[0].busy", new: "",
	},
	{
		name: "compaction: old segments deleted before the swap", gate: true,
		file: "log/compact_swap.go", pkg: inLog, tests: compactionCrashes,
		old: "\tif err := l.dir.fs.Rename(x.fresh.path(cleanedSuffix), x.fresh.path(swapSuffix)); err != nil {",
		new: "\tfor _, s := range x.old {\n\t\t_ = l.dir.fs.Remove(s.path(logSuffix))\n\t}\n\tif err := l.dir.fs.Rename(x.fresh.path(cleanedSuffix), x.fresh.path(swapSuffix)); err != nil {",
	},
}
