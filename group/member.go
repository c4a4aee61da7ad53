package group

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// member of a classic group. All of it is soft: what must outlive a restart is in the group's record.
type member struct {
	g        *group
	id       string
	instance *string // group.instance.id of a static member (KIP-345)
	client   Client
	session  time.Duration
	// rebalance is how long the others wait for it to join: max.poll.interval.ms.
	rebalance  time.Duration
	protocols  []protocol // in order of preference; after a replay only the one that was chosen
	assignment []byte     // of generation group.assigned; nil: none

	alive    timer // the session, or the wait of a new member for its first rebalance
	joining  uint64
	syncing  uint64 // tickets of requests that wait; 0: none
	fresh    bool   // it has never been told of a generation
	unsynced bool   // it has been told of this generation and did not ask for its assignment yet
}

// protocol is one way of assigning that a member knows, with what it tells the leader for it.
type protocol struct {
	name     string
	metadata []byte
}

func (p protocol) size() int { return len(p.name) + len(p.metadata) }

func copyProtocols(list []kmsg.JoinGroupRequestProtocol) []protocol {
	out := make([]protocol, len(list))
	for i, p := range list {
		out[i] = protocol{p.Name, bytes.Clone(p.Metadata)}
	}
	return out
}

func (m *member) static() bool { return m.instance != nil }

// speaks tells whether the member's protocols are exactly these.
func (m *member) speaks(list []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, list, func(a protocol, b kmsg.JoinGroupRequestProtocol) bool {
		return a.name == b.Name && bytes.Equal(a.metadata, b.Metadata)
	})
}

// metadata is what the member says for a protocol, nil if it does not know it.
func (m *member) metadata(name string) []byte {
	for _, p := range m.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return nil
}

// ring implements ringer: the member was not heard of. One that waits for the others need not be, unless it is new: it may have been gone before it
// ever knew its id.
func (m *member) ring(mc *Machine) {
	if !m.fresh && (m.joining != 0 || m.syncing != 0) {
		mc.touch(m)
		return
	}
	mc.removeAndGoOn(m)
}

// touch starts the member's session anew: it was heard of.
func (mc *Machine) touch(m *member) { mc.start(&m.alive, m.session, m) }

// pending is a member id that was given out and whose owner has not joined with it yet (KIP-394).
type pending struct {
	g     *group
	id    string
	alive timer
}

// ring implements ringer.
func (p *pending) ring(mc *Machine) {
	mc.removePending(p)
	mc.completeIfJoined(p.g)
	mc.forgetIfNothing(p.g)
}
