package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"sluice/kproto"
)

// model cuts a stream as the server must: the bodies that are answered, and whether bad bytes end it.
func model(stream []byte, maxFrame int) (bodies [][]byte, ids []int32) {
	for len(stream) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(stream)))
		if n <= 0 || n > maxFrame || len(stream)-4 < n {
			break
		}
		var h kproto.RequestHeader
		body, err := parseTest(&h, stream[4:4+n])
		if err != nil {
			break
		}
		bodies, ids = append(bodies, body), append(ids, h.CorrelationID)
		stream = stream[4+n:]
	}
	return bodies, ids
}

// FuzzFrames sends any bytes, cut anywhere, and expects what the model says.
func FuzzFrames(f *testing.F) {
	const maxFrame = 20_000
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint16(3))
	f.Add(request(1, []byte("one")), uint16(1))
	f.Add(append(request(1, make([]byte, 5000)), request(2, nil)...), uint16(4096))
	f.Add(append(request(1, make([]byte, 19_000)), 0, 0, 0, 0, 1), uint16(20_000))
	f.Add(append(request(1, nil), 0, 0, 0x4e, 0x21), uint16(50))
	s := startServer(f, echo, Options{MaxFrame: maxFrame})
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		bodies, ids := model(stream, maxFrame)
		c := s.dial(t)
		defer c.Close()
		go func() {
			for rest := stream; len(rest) > 0; {
				n := min(len(rest), int(cut)+1)
				if _, err := c.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		}()
		for i, want := range bodies {
			if id, body := c.recv(); id != ids[i] || !bytes.Equal(body, want) {
				t.Fatalf("reply %d has id %d and %d bytes, want id %d and %d bytes", i, id, len(body), ids[i], len(want))
			}
		}
		if id, _, err := c.tryRecv(); !errors.Is(err, io.EOF) {
			t.Fatalf("after %d replies: reply %d, error %v; want the end", len(bodies), id, err)
		}
	})
}
