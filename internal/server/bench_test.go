package server

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/kproto"
)

// Benchmarks over loopback; client and server share the cores. They report the process's CPU time beside the
// wall clock, which says more on a shared machine.

func benchServer(b *testing.B, h Handler) *testClient {
	poisoning = false
	b.Cleanup(func() { poisoning = true })
	s := startServer(b, h, Options{})
	s.parse = (*kproto.RequestHeader).Parse
	c := s.dial(b)
	_ = c.SetDeadline(time.Time{})
	return c
}

// echoSmall answers with ten bytes.
var echoSmall = handlerFunc(func(r *Request) {
	r.ReplyBytes(response(r.CorrelationID, r.Body[:min(2, len(r.Body))]))
})

// benchEcho keeps depth requests of this body size in flight.
func benchEcho(b *testing.B, h Handler, depth, size int) {
	c := benchServer(b, h)
	frame := request(7, make([]byte, size))
	reply := make([]byte, 10)
	frames := make([]byte, 0, depth*len(frame))
	for range depth {
		frames = append(frames, frame...)
	}
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	cpu := cpuTime()
	for b.Loop() {
		if _, err := c.Conn.Write(frames); err != nil {
			b.Fatal(err)
		}
		for range depth {
			if _, err := io.ReadFull(c.r, reply); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := float64(b.N * depth)
	b.ReportMetric(float64(cpuTime()-cpu)/n, "cpu-ns/req")
	b.ReportMetric(float64(b.Elapsed())/n, "ns/req")
}

func BenchmarkEcho(b *testing.B)             { benchEcho(b, echoSmall, 1, 100) }
func BenchmarkEchoPipelined5(b *testing.B)   { benchEcho(b, echoSmall, 5, 1300) }
func BenchmarkEchoPipelined100(b *testing.B) { benchEcho(b, echoSmall, 100, 100) }
func BenchmarkEchoLarge(b *testing.B)        { benchEcho(b, echoSmall, 1, 100_000) }
func BenchmarkEchoLarge5(b *testing.B)       { benchEcho(b, echoSmall, 5, 100_000) }

// BenchmarkEchoElsewhere completes five requests together on another goroutine, as a group commit does.
func BenchmarkEchoElsewhere(b *testing.B) {
	tickets := make(chan *Request, 16)
	go func() {
		var batch []*Request
		for r := range tickets {
			if batch = append(batch, r); len(batch) == 5 {
				for _, r := range batch {
					r.ReplyBytes(response(r.CorrelationID, []byte{1, 2}))
				}
				batch = batch[:0]
			}
		}
	}()
	b.Cleanup(func() { close(tickets) })
	benchEcho(b, handlerFunc(func(r *Request) { tickets <- r }), 5, 1300)
}

// benchFileSize is more than the processor's caches hold, so that the pages come from memory as in a catch-up.
const benchFileSize = 256 << 20

func benchFile(b *testing.B, size int64, os_ bool) {
	f, err := os.Create(filepath.Join(b.TempDir(), "segment"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	step := make([]byte, 1<<20)
	for range benchFileSize / len(step) {
		if _, err := f.Write(step); err != nil {
			b.Fatal(err)
		}
	}
	pos := int64(0)
	c := benchServer(b, handlerFunc(func(r *Request) {
		head := binary.BigEndian.AppendUint32(GetBuffer(60), uint32(size+56))
		head = append(head, make([]byte, 56)...)
		part := Part{Reader: f, Pos: pos, Len: size}
		pos = (pos + size) % benchFileSize
		if os_ {
			part.OS = f
		}
		r.Reply(Reply{Parts: append(r.Scratch(), Part{Bytes: head, Pool: true}, part)})
	}))
	frame := request(7, make([]byte, 80))
	sink := make([]byte, 1<<20)
	b.SetBytes(size)
	b.ReportAllocs()
	cpu := cpuTime()
	for b.Loop() {
		if _, err := c.Conn.Write(frame); err != nil {
			b.Fatal(err)
		}
		for left := size + 60; left > 0; {
			n, err := c.Conn.Read(sink)
			if err != nil {
				b.Fatal(err)
			}
			left -= int64(n)
		}
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N)/float64(size), "cpu-s/GB")
}

func BenchmarkFileSendfile1M(b *testing.B)  { benchFile(b, 1<<20, true) }
func BenchmarkFileCopy1M(b *testing.B)      { benchFile(b, 1<<20, false) }
func BenchmarkFileSendfile32K(b *testing.B) { benchFile(b, 32<<10, true) }
func BenchmarkFileCopy32K(b *testing.B)     { benchFile(b, 32<<10, false) }
func BenchmarkFileSendfile8K(b *testing.B)  { benchFile(b, 8<<10, true) }

// BenchmarkNetEcho is the floor: an echo on the net package alone.
func BenchmarkNetEcho(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if _, err := c.Write(buf[:10]); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	frame, reply := request(7, make([]byte, 100)), make([]byte, 10)
	cpu := cpuTime()
	for b.Loop() {
		if _, err := c.Write(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, reply); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/req")
}

// cpuTime of the process in nanoseconds, user and system.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
