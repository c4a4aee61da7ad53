//go:build !linux

package server

func newTransport(c *Conn) transport { return &plain{conn: c, nc: c.nc} }

type rawSend struct{}

func (*rawSend) init(*outbound) {}
