package quota

import (
	"fmt"
	"math"
)

// Kind is what a quota limits.
type Kind uint8

// The kinds of quota.
const (
	Produce    Kind    = iota // bytes of Produce requests in a second (KIP-13)
	Fetch                     // bytes of Fetch answers in a second (KIP-13)
	Request                   // time of processors, in percent of one (KIP-124)
	Mutation                  // partitions created and deleted in a second (KIP-599)
	Kinds                     // those that users and client ids may have
	Connection = Kinds        // connections of an address in a second (KIP-612)
)

// keys are the names of the kinds on the wire.
var keys = [...]string{Produce: "producer_byte_rate", Fetch: "consumer_byte_rate", Request: "request_percentage", Mutation: "controller_mutation_rate", Connection: "connection_creation_rate"}

func (k Kind) String() string { return keys[k] }

// ParseKind finds the kind that a key names. ok is false if an entity of that sort cannot have it: addresses have a quota of their own.
func ParseKind(key string, ofIP bool) (k Kind, ok bool) {
	for k := range keys {
		if keys[k] == key {
			return Kind(k), (Kind(k) == Connection) == ofIP
		}
	}
	return 0, false
}

// fraction is how far from a whole number a rate may be that is to be whole, as in Kafka.
const fraction = 1e-6

// Check tells what is wrong with a quota's value.
func (k Kind) Check(v float64) error {
	most := float64(math.MaxInt64)
	if k == Connection {
		most = math.MaxInt32
	}
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Errorf("the quota %v must be a finite number", k)
	case v <= 0:
		return fmt.Errorf("the quota %v must be greater than 0", k)
	case k == Request || k == Mutation:
		return nil
	case v > most:
		return fmt.Errorf("the quota %v must not be greater than %.0f", k, most)
	case math.Abs(v-math.Trunc(v)) > fraction:
		return fmt.Errorf("the quota %v must be a whole number", k)
	}
	return nil
}
