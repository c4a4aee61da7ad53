package broker

import (
	"sluice/kproto"
	"sluice/log"
)

// The catalog's log. It is an ordinary partition log, and the one topic that no client ever sees.
const catalogTopic = "__sluice_catalog"

// catalogTopicID is fixed: the catalog is what tells all other ids, so it cannot tell its own.
var catalogTopicID = log.ReservedID

// offsetsTopic holds the groups and their offsets, in Kafka's record formats.
const offsetsTopic = "__consumer_offsets"

// maxTopicName is Kafka's bound on a topic's name, in bytes: with "-<partition>" behind it, it must fit in a file
// name of 255 bytes.
const maxTopicName = 249

// internalTopics hold the brokers' own records and are marked so in Metadata. Clients may not write to them.
var internalTopics = map[string]bool{
	offsetsTopic:          true,
	"__transaction_state": true,
	"__share_group_state": true,
}

// reservedTopics can never be made: Kafka's own metadata log, and ours.
var reservedTopics = map[string]bool{
	"__cluster_metadata": true,
	catalogTopic:         true,
}

// checkTopicName holds a name to what Kafka allows. Names become directory names, so this is also what keeps them
// inside the data directory.
func checkTopicName(name string) error {
	switch {
	case name == "":
		return kproto.Errorf(kproto.InvalidTopic, "The topic name is empty.")
	case name == "." || name == "..":
		return kproto.Errorf(kproto.InvalidTopic, "The topic name cannot be %q.", name)
	case len(name) > maxTopicName:
		return kproto.Errorf(kproto.InvalidTopic, "The topic name has %d bytes; at most %d are allowed.", len(name), maxTopicName)
	}
	for i := range len(name) {
		if !topicNameByte(name[i]) {
			return kproto.Errorf(kproto.InvalidTopic, "The topic name %q has a character other than ASCII letters, digits, '.', '_' and '-'.", name)
		}
	}
	return nil
}

func topicNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// What several APIs answer.
var (
	errDuplicateTopic = kproto.Errorf(kproto.InvalidRequest, "The topic is named more than once.")
	errReservedTopic  = kproto.Errorf(kproto.InvalidRequest, "The name is reserved for a topic that the broker keeps for itself.")
)

// Who holds every partition: the only node.
var onlyNode = []int32{NodeID}

// Operations that a client may do, as bits by the number of the ACL operation (KIP-430). Without an authorizer that
// is all that make sense.
const (
	notAsked         = -1 << 31
	opRead           = 1 << 3
	opWrite          = 1 << 4
	opCreate         = 1 << 5
	opDelete         = 1 << 6
	opAlter          = 1 << 7
	opDescribe       = 1 << 8
	opClusterAction  = 1 << 9
	opDescribeConfig = 1 << 10
	opAlterConfig    = 1 << 11
	opIdempotent     = 1 << 12

	topicOperations   = opRead | opWrite | opCreate | opDelete | opAlter | opDescribe | opDescribeConfig | opAlterConfig
	groupOperations   = opRead | opDelete | opDescribe | opDescribeConfig | opAlterConfig
	clusterOperations = opCreate | opAlter | opDescribe | opClusterAction | opDescribeConfig | opAlterConfig | opIdempotent
)

// operations gives the bits if they were asked for.
func operations(asked bool, bits int32) int32 {
	if asked {
		return bits
	}
	return notAsked
}
