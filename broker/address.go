package broker

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// hostPort is an address as clients are told it.
type hostPort struct {
	host string
	port int32
}

func parseHostPort(s string) (hostPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return hostPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" {
		return hostPort{}, fmt.Errorf("%q is not host:port", s)
	}
	return hostPort{host, int32(n)}, nil
}

// address is where the client of this call finds the broker: what --advertise says, else what the connection reached.
func (c *call) address() hostPort {
	if c.b.advertise.host != "" {
		return c.b.advertise
	}
	a, err := netip.ParseAddrPort(c.Conn.LocalAddr().String())
	if err != nil {
		return hostPort{"127.0.0.1", 9092} // not TCP: a test's pipe
	}
	// Zones mean nothing to the other end.
	return hostPort{a.Addr().Unmap().WithZone("").String(), int32(a.Port())}
}
