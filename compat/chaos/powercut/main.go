// Command powercut runs a broker on a file system of the kernel, on a disk that forgets what it was not told to flush, and cuts the power under load, again and again.
// After each cut the kernel mounts what is left, and the broker must start on it: nothing acknowledged or read is lost, changed or doubled, topics are there or gone as was
// answered. The disk is a file in FUSE under a loop device, of which each 512-byte sector that was not flushed survives or not by itself, so that
// the kernel's journal is torn as a real one may be. It mounts file systems, in a namespace of its own, and so needs to be root; otherwise everything is skipped.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/compat/chaos/namespace"
)

// kinds are the file systems: how one is made, and how it is mounted.
var kinds = map[string]struct{ make, mount []string }{
	"ext4":  {[]string{"mkfs.ext4", "-q", "-F", "-E", "nodiscard"}, nil},
	"xfs":   {[]string{"mkfs.xfs", "-q", "-f", "-K"}, nil},
	"btrfs": {[]string{"mkfs.btrfs", "-q", "-f", "-K"}, nil},
}

func main() {
	bin := flag.String("bin", "bin/sluice", "the broker's binary")
	names := flag.String("fs", "ext4,xfs,btrfs", "file systems")
	cuts := flag.Int("cuts", 10, "cuts on each file system")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the cuts; the load differs all the same")
	flag.Parse()
	fileSystems := strings.Split(*names, ",")
	if err := namespace.Enter(); err != nil {
		fmt.Println(err)
		skipAll(len(fileSystems))
	}
	path, err := filepath.Abs(*bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "powercut:", err)
		os.Exit(1)
	}
	os.Exit(all(path, fileSystems, *cuts, *seed))
}

func skipAll(n int) {
	fmt.Printf("0 passed, 0 failed, %d skipped\n", n)
	os.Exit(0)
}

func all(bin string, names []string, cuts int, seed uint64) int {
	passed, failed, skipped := 0, 0, 0
	for _, name := range names {
		began := time.Now()
		skip, err := one(name, bin, cuts, rand.New(rand.NewPCG(seed, 1)))
		switch {
		case skip != nil:
			skipped++
			fmt.Printf("%-6s skipped: %v\n", name, skip)
		case err != nil:
			failed++
			fmt.Printf("%-6s FAILED (seed %d): %v\n", name, seed, err)
		default:
			passed++
			fmt.Printf("%-6s ok (seed %d), %.0f s\n", name, seed, time.Since(began).Seconds())
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}

// cutsPerLife bounds how full a disk gets.
const cutsPerLife = 25

func one(name, bin string, cuts int, rng *rand.Rand) (skip, err error) {
	kind, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("no such file system")
	}
	if _, err := exec.LookPath(kind.make[0]); err != nil {
		return err, nil
	}
	var sum tally
	for done := 0; done < cuts; done += cutsPerLife {
		skip, err := life(name, bin, min(cutsPerLife, cuts-done), rng, &sum)
		if skip != nil || err != nil {
			return skip, err
		}
	}
	fmt.Printf("%-6s %d cuts; %d records acknowledged and %d read before a cut, %d topics made or deleted: all as promised; %d flushes\n",
		name, sum.cuts, sum.acked, sum.seen, sum.topics, sum.flushes)
	return nil, nil
}

// life makes a file system and cuts its power some times. skip tells why it cannot be made here.
func life(name, bin string, cuts int, rng *rand.Rand, sum *tally) (skip, err error) {
	home, err := os.MkdirTemp("", "powercut-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	m := &machine{kind: name, disk: newDisk(), under: filepath.Join(home, "under"), mount: filepath.Join(home, "mount")}
	if err := os.Mkdir(m.mount, 0o700); err != nil {
		return nil, err
	}
	if err := m.plugIn(); err != nil {
		return err, nil
	}
	defer m.unplug()
	w := newWorld(bin, home, m)
	for range cuts {
		if err := w.cycle(context.Background(), rng); err != nil {
			return nil, fmt.Errorf("cut %d of this disk: %w", sum.cuts%cutsPerLife+1, err)
		}
		sum.cuts++
	}
	w.add(sum)
	return nil, nil
}

// machine is what has the power.
type machine struct {
	kind         string
	disk         *disk
	under, mount string // directories of the disk and of its file system
	stop         func() error
}

// plugIn connects the disk and makes the file system.
func (m *machine) plugIn() error {
	if err := os.Mkdir(m.under, 0o700); err != nil {
		return err
	}
	s, err := m.disk.serve(m.under)
	if err != nil {
		return fmt.Errorf("FUSE: %w", err)
	}
	m.stop = s.Unmount
	k := kinds[m.kind].make
	if err := command(k[0], append(k[1:], m.device())...); err != nil {
		m.unplug()
		return err
	}
	return nil
}

func (m *machine) device() string { return filepath.Join(m.under, diskName) }

func (m *machine) unplug() {
	_ = unix.Unmount(m.mount, unix.MNT_DETACH) // it may not be mounted
	_ = m.stop()                               // the namespace ends with this process, and takes what is left along
}

// on mounts the file system: the kernel does its recovery.
func (m *machine) on() error {
	m.disk.powerOn()
	return command("mount", "-o", "loop,noatime", m.device(), m.mount)
}

// off ends everything that the kernel knows of the disk. The power must be off.
func (m *machine) off() error {
	if err := unix.Unmount(m.mount, 0); err != nil {
		return fmt.Errorf("unmount after the cut: %w", err)
	}
	return nil
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
