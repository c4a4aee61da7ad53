package server

import "net"

// transport moves the bytes of one connection.
type transport interface {
	// wait reads the first bytes that come into a buffer of the connection's input.
	wait() ([]byte, error)
	// read reads into p what is there, at least one byte.
	read(p []byte) (int, error)
	// send writes o, from where it is. With errWouldBlock the rest stays in o.
	send(o *outbound) error
	// hungUp says whether the client has gone away, without reading: its side is reset, or it is ended and nothing is left to be read
	// there; with begun, something was read already and waits.
	hungUp(begun bool) bool
	// sendfiles says whether o may have a file.
	sendfiles() bool
}

// plain works on any net.Conn: pipes in tests, TLS.
type plain struct {
	conn *Conn
	nc   net.Conn
}

func (t *plain) sendfiles() bool { return false }

func (t *plain) hungUp(bool) bool { return false } // it is noticed when it is read again

func (t *plain) wait() ([]byte, error) {
	buf := t.conn.in.take()
	n, err := t.read(buf)
	if n == 0 {
		t.conn.in.give(buf)
		return nil, err
	}
	return buf[:n], nil
}

func (t *plain) read(p []byte) (int, error) {
	for {
		n, err := t.nc.Read(p)
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// plainStep is how much is written at once, so that a slow client shows progress.
const plainStep = 64 << 10

func (t *plain) send(o *outbound) error {
	if !o.wait && len(o.bufs) > 0 {
		return errWouldBlock
	}
	defer t.conn.writeSince.Store(0)
	for len(o.bufs) > 0 {
		t.conn.writeSince.Store(t.conn.srv.now())
		n, err := t.nc.Write(o.bufs[0][:min(len(o.bufs[0]), plainStep)])
		o.sent(n)
		t.conn.srv.metrics.out.Add(float64(n))
		if err != nil {
			return err
		}
	}
	return nil
}
