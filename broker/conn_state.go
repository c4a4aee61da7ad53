package broker

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/internal/server"
)

// anonymous is everybody's principal: there is no authentication.
const anonymous = "User:ANONYMOUS"

// identity is who a client says it is.
type identity struct{ clientID, principal string }

// maxCarried is how many groups a connection is remembered to carry members of. A client has one; a proxy may have several.
const maxCarried = 8

// connState is what the broker keeps of a connection beside its requests in flight. The fields above mu are written on
// the connection's reader alone, and under mu; so the reader reads them without it.
type connState struct {
	id   uint64
	host string // "/127.0.0.1", as groups have it

	identity
	rack     string   // of the last Fetch
	software string   // name and version of ApiVersions (KIP-511), "" when not said
	carries  []string // groups whose members' requests came here, the newest last
	epoch    uint32   // raised when something above changes, so that its subscriptions are looked up again

	quota *connQuota // nil: no quota was set when a request came

	wait    atomic.Int64           // nanoseconds: max_wait of the last Fetch
	standIn atomic.Pointer[string] // see marked

	mu     sync.Mutex
	reads  map[topicPartition]*subscription
	closed bool
}

// connOf gives the state of the connection that a request came on. It must be called on the connection's reader.
func (r *resolver) connOf(q *server.Request) *connState {
	c, _ := q.Conn.Session.(*connState)
	if c == nil {
		c = &connState{id: q.Conn.ID(), host: "/" + remoteHost(q.Conn), identity: identity{q.ClientID, anonymous}}
		q.Conn.Session = c
		r.opened(c)
	}
	if c.clientID != q.ClientID {
		c.change(func() { c.clientID = q.ClientID })
	}
	return c
}

// change runs fn, which changes a field above mu, on the reader.
func (c *connState) change(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn()
	c.epoch++
}

// carry notes that a request of a group's member came on this connection.
func (c *connState) carry(groupID string) {
	if groupID == "" || slices.Contains(c.carries, groupID) {
		return
	}
	c.change(func() {
		if len(c.carries) == maxCarried {
			c.carries = slices.Delete(c.carries, 0, 1)
		}
		c.carries = append(c.carries, groupID)
	})
}

// setRack notes the rack that a Fetch names.
func (c *connState) setRack(rack []byte) {
	if c.rack != string(rack) {
		c.change(func() { c.rack = string(rack) })
	}
}

// setSoftware notes what ApiVersions says of the client.
func (c *connState) setSoftware(name, version string) {
	if s := name + " " + version; c.software != s {
		c.change(func() { c.software = s })
	}
}

// read finds the subscription of a partition, or nil.
func (c *connState) read(k topicPartition) *subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads[k]
}

// remoteHost is the client's address without port and zone.
func remoteHost(c *server.Conn) string {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return "127.0.0.1" // not TCP: a test's pipe
	}
	return a.Addr().Unmap().WithZone("").String()
}

// who is the identity, for others than the reader.
func (c *connState) who() identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}
