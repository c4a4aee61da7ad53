package quota

// Name is a part of an entity: absent, the default, or a name.
type Name struct {
	Given   bool
	Default bool
	Name    string // if Given and not Default
}

// Named is the part with a name.
func Named(name string) Name { return Name{Given: true, Name: name} }

// Default is the part that stands for all that have no quota of their own.
func Default() Name { return Name{Given: true, Default: true} }

// Entity is whom a quota is for. One of the parts is given.
type Entity struct{ User, ClientID Name }

// rules are the quotas of each kind. They are immutable.
type rules struct {
	of       [Kinds]map[Entity]float64
	settings Settings
}

// order is the precedence of Kafka's quotas, for a client that has a user and a client id (KIP-55): the first that is set counts.
var order = [...]func(user, client string) Entity{
	func(u, c string) Entity { return Entity{Named(u), Named(c)} },
	func(u, _ string) Entity { return Entity{Named(u), Default()} },
	func(u, _ string) Entity { return Entity{User: Named(u)} },
	func(_, c string) Entity { return Entity{Default(), Named(c)} },
	func(_, _ string) Entity { return Entity{Default(), Default()} },
	func(_, _ string) Entity { return Entity{User: Default()} },
	func(_, c string) Entity { return Entity{ClientID: Named(c)} },
	func(_, _ string) Entity { return Entity{ClientID: Default()} },
}

// meterKey says who shares a meter: all clients of a user, all of a client id, or those that have both. A default is not shared: each user
// or client id under it has a meter.
type meterKey struct {
	kind               Kind
	hasUser, hasClient bool
	user, client       string
	rest               bool
}

// find gives the quota that a client falls under.
func (r *rules) find(k Kind, user, client string) (rate float64, key meterKey, rule Entity, ok bool) {
	for _, step := range order {
		rule = step(user, client)
		if rate, ok = r.of[k][rule]; ok {
			break
		}
	}
	if !ok {
		return 0, meterKey{}, Entity{}, false
	}
	key = meterKey{kind: k, hasUser: rule.User.Given, hasClient: rule.ClientID.Given}
	if key.hasUser {
		key.user = user
	}
	if key.hasClient {
		key.client = client
	}
	return rate, key, rule, true
}

// rateOf is the rate of a meter that exists: the first quota that those who share it may fall under.
func (r *rules) rateOf(key meterKey) (rate float64, ok bool) {
	for _, step := range order {
		rule := step(key.user, key.client)
		if rule.User.Given != key.hasUser || rule.ClientID.Given != key.hasClient || key.rest && rule.shares() {
			continue
		}
		if rate, ok = r.of[key.kind][rule]; ok {
			return rate, true
		}
	}
	return 0, false
}

// shares tells whether the quota has one meter, however many clients fall under it.
func (e Entity) shares() bool { return !e.User.Default && !e.ClientID.Default }
