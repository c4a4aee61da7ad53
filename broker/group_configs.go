package broker

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"sluice/config"
	"sluice/group"
	"sluice/kproto"
)

// groupConfigs are the groups that have settings of their own, as the catalog says; fed by follow.go. A group need not exist
// to have some. The zero value is ready.
type groupConfigs struct {
	mu     sync.RWMutex // guards the fields below; the values are immutable
	groups map[string]groupConfig
}

type groupConfig struct {
	own      map[string]string
	snapshot *config.Group
}

// of gives a group's snapshot, nil for one without settings of its own: it gets the broker's.
func (g *groupConfigs) of(id string) *config.Group {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.groups[id].snapshot
}

// policy is a group's limit of dispatch, not Set for a group without one.
func (g *groupConfigs) policy(id string) config.Policy {
	if own := g.of(id); own != nil {
		return own.Dispatch
	}
	return config.Policy{}
}

// policies are the limits of dispatch of all groups that have one.
func (g *groupConfigs) policies() map[string]config.Policy {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := map[string]config.Policy{}
	for id, c := range g.groups {
		if c.snapshot.Dispatch.Set {
			all[id] = c.snapshot.Dispatch
		}
	}
	return all
}

// own gives what was set for a group.
func (g *groupConfigs) own(id string) map[string]string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.groups[id].own
}

// names gives the groups that have settings, in order.
func (g *groupConfigs) names() []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Sorted(maps.Keys(g.groups))
}

// put brings a group to its new settings; none take it out.
func (g *groupConfigs) put(s *settings, id string, own map[string]string) error {
	if len(own) == 0 {
		g.mu.Lock()
		delete(g.groups, id)
		g.mu.Unlock()
		return nil
	}
	snapshot, err := config.NewGroup(s.forGroup(own))
	if err != nil {
		return fmt.Errorf("settings of group %s: %w", id, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups == nil {
		g.groups = map[string]groupConfig{}
	}
	g.groups[id] = groupConfig{own, snapshot}
	return nil
}

// renew follows a change of the broker's settings, which stand in where a group has none.
func (g *groupConfigs) renew(s *settings) error {
	for _, id := range g.names() {
		if err := g.put(s, id, g.own(id)); err != nil {
			return err
		}
	}
	return nil
}

// maxGroupName is bytes of a group's name in a resource of configs: Kafka's records, and so its groups, hold strings of up to
// 32,767 bytes; ours have half.
const maxGroupName = 16 << 10

func checkGroupName(name string) error {
	switch {
	case name == "":
		return kproto.Errorf(kproto.InvalidRequest, "The name of the group is empty; what all groups get is set on the broker.")
	case len(name) > maxGroupName:
		return kproto.Errorf(kproto.InvalidRequest, "The name of the group has %d bytes; at most %d are allowed.", len(name), maxGroupName)
	}
	return nil
}

// settingsOf is for the group machines, which ask at each of their steps.
func (g *groups) settingsOf(id string) (group.ConsumerSettings, bool) {
	own := g.b.groupConfigs.of(id)
	if own == nil {
		return group.ConsumerSettings{}, false
	}
	return g.consumerSettings(own), true
}
