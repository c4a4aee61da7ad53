package main

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	sectorSize = 512
	// diskSize is that of the disk in bytes; what was never written costs nothing. XFS wants 300 MB at least.
	diskSize = 320 << 20
)

type sector [sectorSize]byte

// disk is one that forgets at a power cut what it was not told to flush. It is a file in a FUSE file system, for a loop device to stand on.
type disk struct {
	fs.Inode

	mu      sync.Mutex
	off     bool              // the power is off: nothing is read or written any more
	durable map[int64]*sector // by number; a sector is never changed in place
	pending map[int64][]*sector
	flushes int
}

func newDisk() *disk {
	return &disk{durable: map[int64]*sector{}, pending: map[int64][]*sector{}}
}

// powerOff loses what was not flushed: of the writes to a sector since the last flush the disk keeps one or none, each sector by itself. rng says how much.
func (d *disk) powerOff(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	keep := [...]float64{0, 0.1, 0.5, 0.9, 1}[rng.IntN(5)]
	for n, writes := range d.pending {
		if rng.Float64() < keep {
			d.durable[n] = writes[len(writes)-1-rng.IntN(len(writes))*rng.IntN(2)] // the newest, half of the time any
		}
	}
	clear(d.pending)
}

func (d *disk) powerOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = false
}

// current is a sector as a reader sees it; nil: zeros.
func (d *disk) current(n int64) *sector {
	if writes := d.pending[n]; len(writes) > 0 {
		return writes[len(writes)-1]
	}
	return d.durable[n]
}

// Open has all reads and writes come here, past the page cache.
func (d *disk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Getattr tells the size.
func (d *disk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o600, diskSize
	return 0
}

// Setattr changes nothing: the size of a disk stays.
func (d *disk) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return d.Getattr(ctx, f, out)
}

// Read implements fs.NodeReader.
func (d *disk) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, syscall.EIO
	}
	dest = dest[:max(0, min(int64(len(dest)), diskSize-off))]
	for done := 0; done < len(dest); {
		at := off + int64(done)
		from := int(at % sectorSize)
		n := min(sectorSize-from, len(dest)-done)
		if s := d.current(at / sectorSize); s != nil {
			copy(dest[done:done+n], s[from:])
		} else {
			clear(dest[done : done+n])
		}
		done += n
	}
	return fuse.ReadResultData(dest), 0
}

// Write implements fs.NodeWriter.
func (d *disk) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return 0, syscall.EIO
	}
	for done := 0; done < len(data); {
		at := off + int64(done)
		number, from := at/sectorSize, int(at%sectorSize)
		s := new(sector)
		if old := d.current(number); old != nil {
			*s = *old
		}
		done += copy(s[from:], data[done:])
		d.pending[number] = append(d.pending[number], s)
	}
	return uint32(len(data)), 0
}

// Fsync is the flush of the disk's cache.
func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return syscall.EIO
	}
	for n, writes := range d.pending {
		d.durable[n] = writes[len(writes)-1]
	}
	clear(d.pending)
	d.flushes++
	return 0
}

// root is the directory that holds the disk.
type root struct {
	fs.Inode
	disk *disk
}

// OnAdd implements fs.NodeOnAdder.
func (r *root) OnAdd(ctx context.Context) {
	r.AddChild(diskName, r.NewPersistentInode(ctx, r.disk, fs.StableAttr{Mode: fuse.S_IFREG}), false)
}

const diskName = "disk"

// serve mounts the directory; the disk is the file diskName in it.
func (d *disk) serve(dir string) (*fuse.Server, error) {
	server, err := fs.Mount(dir, &root{disk: d}, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: "powercut", MaxWrite: 128 << 10}})
	if err != nil {
		return nil, err
	}
	return server, closeOnExec()
}

// closeOnExec keeps the connection to the kernel out of other processes: as long as any has it, the kernel waits for answers, even when this one has died.
func closeOnExec() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
