// Command fulldisk fills a small file system under a running broker, again and again. While it is full, producers must be told so, and everything
// else must go on: reads, metadata, DeleteRecords and DeleteTopics. When there is space again, the broker must take appends without a restart. Nothing that
// was acknowledged may be lost. It mounts file systems, in a namespace of its own, and so needs to be root; otherwise everything is skipped.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sluice/compat/chaos/namespace"
)

// diskBytes is the size of the file systems; ext4 keeps some of it for itself.
const diskBytes = 64 << 20

func main() {
	bin := flag.String("bin", "bin/sluice", "the broker's binary")
	cycles := flag.Int("cycles", 100, "times that each file system is filled and drained")
	flag.Parse()
	if err := namespace.Enter(); err != nil {
		fmt.Println(err)
		skipAll()
	}
	path, err := filepath.Abs(*bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fulldisk:", err)
		os.Exit(1)
	}
	os.Exit(all(path, *cycles))
}

func skipAll() {
	fmt.Printf("0 passed, 0 failed, %d skipped\n", len(disks))
	os.Exit(0)
}

// disks are the file systems.
var disks = []struct {
	name  string
	mount func(dir string) error
}{
	{"tmpfs", func(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", diskBytes)) }},
	{"ext4", mountExt4},
}

// mountExt4 makes the file system in a file beside the directory.
func mountExt4(dir string) error {
	image := dir + ".image"
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := f.Truncate(diskBytes); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, argv := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", argv[0], err, out)
		}
	}
	return nil
}

func all(bin string, cycles int) int {
	passed, failed, skipped := 0, 0, 0
	for _, d := range disks {
		began := time.Now()
		skip, err := one(d.name, d.mount, bin, cycles)
		switch {
		case skip != nil:
			skipped++
			fmt.Printf("%-6s skipped: %v\n", d.name, skip)
		case err != nil:
			failed++
			fmt.Printf("%-6s FAILED: %v\n", d.name, err)
		default:
			passed++
			fmt.Printf("%-6s ok, %.1f s\n", d.name, time.Since(began).Seconds())
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}

func one(name string, mount func(string) error, bin string, cycles int) (skip, err error) {
	home, err := os.MkdirTemp("", "fulldisk-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	disk := filepath.Join(home, name)
	if err := os.Mkdir(disk, 0o700); err != nil {
		return nil, err
	}
	if err := mount(disk); err != nil {
		return err, nil
	}
	defer func() { _ = unix.Unmount(disk, unix.MNT_DETACH) }()
	d := drill{bin: bin, disk: disk, home: home}
	if err := d.run(context.Background(), cycles); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, d.said())
	}
	fmt.Printf("%-6s %d cycles; slowest answer on the full disk %v, slowest return to work %v; %d records acknowledged\n",
		name, cycles, d.slowestAnswer.Round(time.Millisecond), d.slowestReturn.Round(time.Millisecond), d.acks)
	return nil, nil
}
