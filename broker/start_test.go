package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/internal/vfs"
	"sluice/log"
)

// H9 and D7: cluster and topics are the same after a restart, the epoch is one higher.
func TestRestartKeepsWhatWasMade(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.create(7, false, createEntry("a", 3, 1, "retention.ms", "5000"))
	c.mustCreate("gone")
	c.mustDelete("gone")
	id, cluster, epoch := n.topics.byName("a").id, n.ClusterID(), n.Epoch()
	if len(cluster) != 22 {
		t.Errorf("cluster id %q", cluster)
	}
	for i, again := range []func(){n.restart, n.powerCut, n.restart} {
		again()
		x := n.topics.byName("a")
		if x == nil || x.id != id || x.partitions() != 3 || x.raw().Config["retention.ms"] != "5000" || x.config().RetentionMs != 5000 {
			t.Fatalf("start %d: topic %+v", i, x)
		}
		if n.ClusterID() != cluster || n.Epoch() != epoch+1 {
			t.Errorf("start %d: cluster %s, epoch %d; before %s, %d", i, n.ClusterID(), n.Epoch(), cluster, epoch)
		}
		epoch = n.Epoch()
		if names := n.dial().names(); !slices.Equal(names, []string{"a"}) {
			t.Errorf("start %d: topics %v", i, names)
		}
	}
}

// A change that was acknowledged survives a power cut, whatever of the unsynced part is lost.
func TestAcknowledgedChangesSurvivePowerCuts(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.mustCreate("a")
	c.grow(3, false, growEntry("a", 4))
	c.set(typeTopic, "a", "retention.ms", "5000")
	c.mustCreate("b")
	c.mustDelete("b")
	for name, image := range n.opts.FS.(*vfs.Mem).Images(10) {
		b, err := Start(Options{DataDir: "/data", FS: image})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		x := b.topics.byName("a")
		if x == nil || x.partitions() != 4 || x.config().RetentionMs != 5000 || b.topics.byName("b") != nil || b.ClusterID() != n.ClusterID() {
			t.Errorf("%s: topic %+v, cluster %s", name, x, b.ClusterID())
		}
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A first start waits for at most four syncs: of the data directory's parent, the catalog's first records, the catalog's
// directory, and the data directory. What may be lost and made anew is held up here until Start has returned, so Start
// cannot have waited for it.
func TestFirstStartWaitsForAtMostFourSyncs(t *testing.T) {
	disk := vfs.NewMem()
	started := make(chan struct{})
	var waitedFor atomic.Int32
	disk.OnOp(func(op vfs.Op) {
		if op.Kind&(vfs.OpSync|vfs.OpSyncDir) == 0 {
			return
		}
		switch filepath.Base(op.Name) {
		case "leader-epoch-checkpoint.tmp", "durable-offsets":
			select {
			case <-started:
			case <-time.After(ioTimeout):
				t.Errorf("Start waits for %v %s", op.Kind, op.Name)
			}
		default:
			waitedFor.Add(1)
		}
	})
	b, err := Start(Options{DataDir: "/data", FS: disk})
	n := waitedFor.Load()
	close(started)
	if err != nil {
		t.Fatal(err)
	}
	if n > 4 {
		t.Errorf("%d syncs", n)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOneBrokerForADataDirectory(t *testing.T) {
	n := startNode(t, nil)
	if _, err := Start(n.opts); !errors.Is(err, log.ErrInUse) {
		t.Errorf("a second broker: %v", err)
	}
}

// F14: a directory of another cluster or node is refused, and so is one whose catalog is gone.
func TestForeignDataDirectory(t *testing.T) {
	write := func(n *node, text string) {
		f, err := n.opts.FS.OpenFile("/data/meta.properties", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	for _, x := range []struct{ what, text, want string }{
		{"another cluster", "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n", "belongs to cluster AAAAAAAAAAAAAAAAAAAAAA"},
		{"another node", "version=1\ncluster.id=%s\nnode.id=2\n", "belongs to node 2"},
		{"too long", strings.Repeat("#", maxMetaBytes+1), "at most"},
		{"torn", "vers", ""},
		{"torn in the cluster's id", "cluster.id=AAAA", ""},
		{"torn in the version", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=2\nversi", ""},
		{"zeros", "\x00\x00\x00\x00", ""},
		{"empty", "", ""},
	} {
		n := startNode(t, nil)
		n.stop()
		text := x.text
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, n.ClusterID())
		}
		write(n, text)
		b, err := Start(n.opts)
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%s: %v", x.what, err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s: %v", x.what, err)
		}
		if b != nil {
			meta, err := readMeta(n.opts.FS, "/data")
			if err != nil || meta["cluster.id"] != n.ClusterID() || meta["node.id"] != "1" || meta["version"] != "1" {
				t.Errorf("%s: meta.properties is now %v %v", x.what, meta, err)
			}
			if err := b.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		write(n, "") // so that the node can start, to be stopped by startNode
		n.start()
	}
}

// A directory that no topic knows may be all that is left of somebody's data: it stays and is reported.
func TestUnknownDirectoriesAreKept(t *testing.T) {
	n := startNode(t, nil)
	n.dial().mustCreate("a")
	for _, dir := range []string{"/data/stranger-0", "/data/a-7", "/data/nonsense"} {
		if err := n.opts.FS.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n.restart()
	for _, dir := range []string{"/data/stranger-0", "/data/a-7", "/data/nonsense"} {
		if _, err := n.opts.FS.Stat(dir); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if !n.logs.contains("/data/stranger-0") || !n.logs.contains("/data/a-7") || n.logs.contains("/data/nonsense") {
		t.Errorf("reported:\n%s", n.logs)
	}
}

// A deletion whose files could not be removed is finished at the next start, though a topic of the same name has been
// made since.
func TestDeletionIsFinishedAtTheNextStart(t *testing.T) {
	var in vfs.Injector
	disk := vfs.NewMem()
	n := &node{t: t, logs: &logBook{}, opts: Options{DataDir: "/data", FS: vfs.Inject(disk, &in)}}
	n.start()
	c := n.dial()
	c.mustCreate("a")
	c.produce("a", 0, "old")
	c.mustCreate("b")
	c.produce("b", 0, "old")
	in.Add(vfs.Fault{Ops: vfs.OpRename, Path: "a-0", Sticky: true})
	in.Add(vfs.Fault{Ops: vfs.OpRename, Path: "/data/a-0", Sticky: true})
	c.mustDelete("a")
	c.mustDelete("b")
	if _, err := disk.Stat("/data/a-0"); err != nil {
		t.Fatalf("the test's fault did not hit: %v", err)
	}
	if _, err := disk.Stat("/data/b-0"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of b: %v", err)
	}
	c.mustCreate("a")
	in.Heal()
	n.restart()
	if _, err := disk.Stat("/data/a-0"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old files after a restart: %v", err)
	}
	if x := n.dial().produce("a", 0, "new"); x.ErrorCode != 0 || x.BaseOffset != 0 {
		t.Errorf("produce to the new topic: %+v", x)
	}
	n.restart()
	if x := n.dial().produce("a", 0, "newer"); x.ErrorCode != 0 || x.BaseOffset != 1 {
		t.Errorf("produce after another restart: %+v", x)
	}
	n.stop()
}

// A kill between a deletion and its files, before the partition's id was written: the next topic of the name must not
// take the files for its own.
func TestDeletionFindsFilesWithoutID(t *testing.T) {
	var in vfs.Injector
	disk := vfs.NewMem()
	n := &node{t: t, logs: &logBook{}, opts: Options{DataDir: "/data", FS: vfs.Inject(disk, &in)}}
	n.start()
	c := n.dial()
	c.mustCreate("a")
	c.produce("a", 0, "old")
	in.Add(vfs.Fault{Ops: vfs.OpRename, Path: "/data/a-0", Sticky: true})
	c.mustDelete("a")
	n.stop()
	if err := disk.Remove("/data/a-0/partition.metadata"); err != nil {
		t.Fatal(err)
	}
	in.Heal()
	n.start()
	if _, err := disk.Stat("/data/a-0"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old files after a restart: %v", err)
	}
	c = n.dial()
	c.mustCreate("a")
	if x := c.produce("a", 0, "new"); x.ErrorCode != 0 || x.BaseOffset != 0 {
		t.Errorf("produce to the new topic: %+v", x)
	}
	n.stop()
}

// When the catalog's log cannot be written, changes fail with a retriable code, nothing half-done shows, and the
// broker goes on once the disk does.
func TestCatalogThatCannotBeWritten(t *testing.T) {
	var in vfs.Injector
	n := &node{t: t, logs: &logBook{}, opts: Options{DataDir: "/data", FS: vfs.Inject(vfs.NewMem(), &in)}}
	n.start()
	c := n.dial()
	c.mustCreate("a")
	in.Add(vfs.Fault{Ops: vfs.OpWrite, Path: "*.log", Sticky: true})
	if got := c.create(7, false, createEntry("b", 1, 1))[0]; got.ErrorCode != 56 {
		t.Errorf("create: %+v", got)
	}
	if names := c.names(); !slices.Equal(names, []string{"a"}) {
		t.Errorf("topics: %v", names)
	}
	in.Heal()
	waitFor(t, func() bool { return c.create(7, false, createEntry("b", 1, 1))[0].ErrorCode == 0 })
	n.restart()
	if names := n.dial().names(); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("topics: %v", names)
	}
	n.stop()
}

func TestNewUUID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s := newUUID().String()
		if len(s) != 22 || s[0] == '-' || seen[s] {
			t.Fatalf("id %q", s)
		}
		seen[s] = true
	}
}

// Many partitions cost little until they are used.
func TestManyPartitions(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	if got := c.create(7, false, createEntry("wide", 100_000, 1))[0]; got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	if x := c.produce("wide", 99_999, "x"); x.ErrorCode != 0 {
		t.Errorf("%+v", x)
	}
	if got := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 12).Topics[0]; len(got.Partitions) != 100_000 {
		t.Errorf("Metadata tells of %d partitions", len(got.Partitions))
	}
	if used := n.topics.byName("wide").close(); len(used) != 1 {
		t.Errorf("%d partitions have a log", len(used))
	}
}
