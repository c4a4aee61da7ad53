package broker

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"
)

// maxShownSubscriptions bounds an answer of /v1/connections: partitions, over all connections.
const maxShownSubscriptions = 10_000

// connectionJSON is a connection of /v1/connections.
type connectionJSON struct {
	ID        uint64             `json:"id"`
	ClientID  string             `json:"client_id"`
	Principal string             `json:"principal"`
	Host      string             `json:"host"`
	Software  string             `json:"software,omitempty"`
	Rack      string             `json:"rack,omitempty"`
	Members   []string           `json:"members_of,omitempty"` // groups whose members' requests it carried
	State     string             `json:"state"`                // running, or throttled: it is not read, for a client quota
	Muted     float64            `json:"muted_seconds,omitempty"`
	Reads     []subscriptionJSON `json:"reads"`
}

// subscriptionJSON is a partition that a connection reads, and whose allowance it draws on.
type subscriptionJSON struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Group     *string  `json:"group"`              // null: it is not known
	StandIn   string   `json:"stand_in,omitempty"` // what stands for the group
	Method    string   `json:"method"`
	Rivals    []string `json:"may_be,omitempty"` // groups that it may be as well
	Position  int64    `json:"position"`
	Idle      float64  `json:"idle_seconds"` // since the last fetch
}

// serveConnections shows the connections that read or carry members' requests, and which group each read was found to be
// of. ?group=, ?topic= and ?client_id= pick; "omitted" counts the partitions beyond what one answer shows.
func (b *Broker) serveConnections(w http.ResponseWriter, q *http.Request) {
	list, omitted := b.resolver.show(q.FormValue("group"), q.FormValue("topic"), q.FormValue("client_id"), stampOf(time.Now()))
	writeJSON(w, http.StatusOK, map[string]any{"connections": list, "omitted": omitted})
}

func (r *resolver) show(group, topic, clientID string, now stamp) (list []connectionJSON, omitted int) {
	list = []connectionJSON{}
	shown := 0
	for _, c := range r.connections() {
		x := c.show(group, topic, now)
		if clientID != "" && x.ClientID != clientID || len(x.Reads) == 0 && (topic != "" || group != "" && !slices.Contains(x.Members, group)) {
			continue
		}
		if room := maxShownSubscriptions - shown; len(x.Reads) > room {
			omitted += len(x.Reads) - room
			x.Reads = x.Reads[:room]
		}
		shown += len(x.Reads)
		list = append(list, x)
	}
	return list, omitted
}

// connections are those that are open, in order of their id.
func (r *resolver) connections() []*connState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Keys(r.conns), func(a, b *connState) int { return cmp.Compare(a.id, b.id) })
}

func (c *connState) show(group, topic string, now stamp) connectionJSON {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := connectionJSON{
		ID: c.id, ClientID: c.clientID, Principal: c.principal, Host: c.host, Software: c.software, Rack: c.rack,
		Members: slices.Clone(c.carries), Reads: []subscriptionJSON{},
	}
	if x.State = "running"; c.quota != nil {
		if x.Muted = c.quota.conn.MutedFor().Seconds(); x.Muted > 0 {
			x.State = "throttled"
		}
	}
	for _, s := range c.reads {
		k, _, _ := s.key()
		if (group == "" || k == groupKey{true, group}) && (topic == "" || s.topic.name == topic) {
			x.Reads = append(x.Reads, s.show(now))
		}
	}
	slices.SortFunc(x.Reads, func(a, b subscriptionJSON) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return x
}

func (s *subscription) show(now stamp) subscriptionJSON {
	k, how, rivals := s.key()
	x := subscriptionJSON{
		Topic: s.topic.name, Partition: s.partition, Method: how.String(), Rivals: rivals, Position: s.position.Load(),
		Idle: time.Duration(now - stamp(s.fetched.Load())).Seconds(),
	}
	if x.StandIn = k.name; k.group {
		x.Group, x.StandIn = &k.name, ""
	}
	return x
}
