package config

import (
	"math"
	"time"
)

// row is the one declaration of a setting.
type row struct {
	name    string
	aliases []string // other names accepted wherever the name is
	scope   Scope    // filled in by the registry
	kind    kind
	def     string            // the default, as a user would write it
	unset   bool              // there is no default: the setting is absent until it is set
	norm    func(value) value // what a value counts as, before the limit
	allow   limit
	live    bool // may change while the broker runs; topic and group settings always may
	doc     string

	// Where our default is not Kafka's: theirs, and why ours is another.
	kafka, why string

	// internal settings are for tests: described only where they are set.
	internal bool

	// stated settings are information: the broker says what is, and a value from anywhere else is ignored. The text
	// says where the value comes from.
	stated string

	// fallback are the broker settings that stand in for a topic's or group's, in order of precedence. The registry makes a
	// broker row of each.
	fallback []fallback

	// Where the value is stored. A setting that is stored nowhere is accepted, checked and described, and has no effect.
	broker func(*Broker, value)
	topic  func(*Topic, value)
	group  func(*Group, value)

	// The settings that a value belongs to, which count as a whole, and the broker setting that stands in where nobody else has any of
	// them; "": none does.
	policy *policy
	stands string

	// The broker settings that bound a group's value, "" where nothing does.
	lowest, highest string

	// Of a broker row made from a fallback: the row it stands in for, and how many units of that one unit of this is.
	over *row
	unit int64

	// Filled in by the registry: the broker rows that the value falls back on, and the default.
	chain     []*row
	parsedDef value
	isBound   bool // it bounds a group's setting
	standsIn  *row // the first row of a policy that it stands in for
}

// fallback is a broker setting that stands in for a topic or group setting. What it does not say is as in that row; of
// several, only the last has a default, which is the row's.
type fallback struct {
	name  string
	kind  kind  // zero: the row's
	unit  int64 // so many of the row's unit; zero: one
	allow limit
	fixed bool // may not change while the broker runs
}

// under names the one broker setting that stands in for a topic or group setting.
func under(name string) []fallback { return []fallback{{name: name}} }

// hasEffect tells whether anything reads the setting.
func (r *row) hasEffect() bool {
	if r.over != nil {
		return r.over.hasEffect()
	}
	return r.broker != nil || r.topic != nil || r.group != nil || r.stated != "" || r.isBound || r.policy != nil
}

// wants says what a value must be.
func (r *row) wants() string {
	switch {
	case r.allow.want == "":
		return r.kind.noun()
	case r.kind == kindShort || r.kind == kindInt || r.kind == kindLong || r.kind == kindDouble:
		return r.kind.noun() + " " + r.allow.want
	}
	return r.allow.want
}

// The functions below store a parsed value into a field of a snapshot.

type integer interface {
	~int | ~int16 | ~int32 | ~int64
}

func whole[S any, N integer](field func(*S) *N) func(*S, value) {
	return func(s *S, v value) { *field(s) = N(v.whole) }
}

// millis stores milliseconds as a duration; what does not fit becomes the longest.
func millis[S any](field func(*S) *time.Duration) func(*S, value) {
	return func(s *S, v value) { *field(s) = time.Duration(v.times(int64(time.Millisecond)).whole) }
}

// seconds is millis for seconds.
func seconds[S any](field func(*S) *time.Duration) func(*S, value) {
	return func(s *S, v value) { *field(s) = time.Duration(v.times(int64(time.Second)).whole) }
}

func boolean[S any](field func(*S) *bool) func(*S, value) {
	return func(s *S, v value) { *field(s) = v.flag }
}

func list[S any](field func(*S) *[]string) func(*S, value) {
	return func(s *S, v value) { *field(s) = v.list }
}

func text[S any](field func(*S) *string) func(*S, value) {
	return func(s *S, v value) { *field(s) = v.text }
}

// Sizes and times that rows are written in.
const (
	mebibyte    = 1 << 20
	maxInt      = math.MaxInt32
	minuteMs    = int64(time.Minute / time.Millisecond)
	hourMs      = int64(time.Hour / time.Millisecond)
	never       = "9223372036854775807" // the largest long
	unlimited32 = "2147483647"          // the largest int
)
