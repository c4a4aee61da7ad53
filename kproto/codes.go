package kproto

import "github.com/twmb/franz-go/pkg/kerr"

// Error codes of Kafka's protocol (org.apache.kafka.common.protocol.Errors), under Kafka's names in Go's spelling.
const (
	UnknownServerError int16 = -1
	NoError            int16 = 0

	OffsetOutOfRange                       int16 = 1
	CorruptMessage                         int16 = 2
	UnknownTopicOrPartition                int16 = 3
	InvalidFetchSize                       int16 = 4
	LeaderNotAvailable                     int16 = 5
	NotLeaderOrFollower                    int16 = 6
	RequestTimedOut                        int16 = 7
	BrokerNotAvailable                     int16 = 8
	ReplicaNotAvailable                    int16 = 9
	MessageTooLarge                        int16 = 10
	StaleControllerEpoch                   int16 = 11
	OffsetMetadataTooLarge                 int16 = 12
	NetworkException                       int16 = 13
	CoordinatorLoadInProgress              int16 = 14
	CoordinatorNotAvailable                int16 = 15
	NotCoordinator                         int16 = 16
	InvalidTopic                           int16 = 17
	RecordListTooLarge                     int16 = 18
	NotEnoughReplicas                      int16 = 19
	NotEnoughReplicasAfterAppend           int16 = 20
	InvalidRequiredAcks                    int16 = 21
	IllegalGeneration                      int16 = 22
	InconsistentGroupProtocol              int16 = 23
	InvalidGroupID                         int16 = 24
	UnknownMemberID                        int16 = 25
	InvalidSessionTimeout                  int16 = 26
	RebalanceInProgress                    int16 = 27
	InvalidCommitOffsetSize                int16 = 28
	TopicAuthorizationFailed               int16 = 29
	GroupAuthorizationFailed               int16 = 30
	ClusterAuthorizationFailed             int16 = 31
	InvalidTimestamp                       int16 = 32
	UnsupportedSASLMechanism               int16 = 33
	IllegalSASLState                       int16 = 34
	UnsupportedVersion                     int16 = 35
	TopicAlreadyExists                     int16 = 36
	InvalidPartitions                      int16 = 37
	InvalidReplicationFactor               int16 = 38
	InvalidReplicaAssignment               int16 = 39
	InvalidConfig                          int16 = 40
	NotController                          int16 = 41
	InvalidRequest                         int16 = 42
	UnsupportedForMessageFormat            int16 = 43
	PolicyViolation                        int16 = 44
	OutOfOrderSequenceNumber               int16 = 45
	DuplicateSequenceNumber                int16 = 46
	InvalidProducerEpoch                   int16 = 47
	InvalidTxnState                        int16 = 48
	InvalidProducerIDMapping               int16 = 49
	InvalidTransactionTimeout              int16 = 50
	ConcurrentTransactions                 int16 = 51
	TransactionCoordinatorFenced           int16 = 52
	TransactionalIDAuthorizationFailed     int16 = 53
	SecurityDisabled                       int16 = 54
	OperationNotAttempted                  int16 = 55
	KafkaStorageError                      int16 = 56
	LogDirNotFound                         int16 = 57
	SASLAuthenticationFailed               int16 = 58
	UnknownProducerID                      int16 = 59
	ReassignmentInProgress                 int16 = 60
	DelegationTokenAuthDisabled            int16 = 61
	DelegationTokenNotFound                int16 = 62
	DelegationTokenOwnerMismatch           int16 = 63
	DelegationTokenRequestNotAllowed       int16 = 64
	DelegationTokenAuthorizationFailed     int16 = 65
	DelegationTokenExpired                 int16 = 66
	InvalidPrincipalType                   int16 = 67
	NonEmptyGroup                          int16 = 68
	GroupIDNotFound                        int16 = 69
	FetchSessionIDNotFound                 int16 = 70
	InvalidFetchSessionEpoch               int16 = 71
	ListenerNotFound                       int16 = 72
	TopicDeletionDisabled                  int16 = 73
	FencedLeaderEpoch                      int16 = 74
	UnknownLeaderEpoch                     int16 = 75
	UnsupportedCompressionType             int16 = 76
	StaleBrokerEpoch                       int16 = 77
	OffsetNotAvailable                     int16 = 78
	MemberIDRequired                       int16 = 79
	PreferredLeaderNotAvailable            int16 = 80
	GroupMaxSizeReached                    int16 = 81
	FencedInstanceID                       int16 = 82
	EligibleLeadersNotAvailable            int16 = 83
	ElectionNotNeeded                      int16 = 84
	NoReassignmentInProgress               int16 = 85
	GroupSubscribedToTopic                 int16 = 86
	InvalidRecord                          int16 = 87
	UnstableOffsetCommit                   int16 = 88
	ThrottlingQuotaExceeded                int16 = 89
	ProducerFenced                         int16 = 90
	ResourceNotFound                       int16 = 91
	DuplicateResource                      int16 = 92
	UnacceptableCredential                 int16 = 93
	InconsistentVoterSet                   int16 = 94
	InvalidUpdateVersion                   int16 = 95
	FeatureUpdateFailed                    int16 = 96
	PrincipalDeserializationFailure        int16 = 97
	SnapshotNotFound                       int16 = 98
	PositionOutOfRange                     int16 = 99
	UnknownTopicID                         int16 = 100
	DuplicateBrokerRegistration            int16 = 101
	BrokerIDNotRegistered                  int16 = 102
	InconsistentTopicID                    int16 = 103
	InconsistentClusterID                  int16 = 104
	TransactionalIDNotFound                int16 = 105
	FetchSessionTopicIDError               int16 = 106
	IneligibleReplica                      int16 = 107
	NewLeaderElected                       int16 = 108
	OffsetMovedToTieredStorage             int16 = 109
	FencedMemberEpoch                      int16 = 110
	UnreleasedInstanceID                   int16 = 111
	UnsupportedAssignor                    int16 = 112
	StaleMemberEpoch                       int16 = 113
	MismatchedEndpointType                 int16 = 114
	UnsupportedEndpointType                int16 = 115
	UnknownControllerID                    int16 = 116
	UnknownSubscriptionID                  int16 = 117
	TelemetryTooLarge                      int16 = 118
	InvalidRegistration                    int16 = 119
	TransactionAbortable                   int16 = 120
	InvalidRecordState                     int16 = 121
	ShareSessionNotFound                   int16 = 122
	InvalidShareSessionEpoch               int16 = 123
	FencedStateEpoch                       int16 = 124
	InvalidVoterKey                        int16 = 125
	DuplicateVoter                         int16 = 126
	VoterNotFound                          int16 = 127
	InvalidRegularExpression               int16 = 128
	RebootstrapRequired                    int16 = 129
	StreamsInvalidTopology                 int16 = 130
	StreamsInvalidTopologyEpoch            int16 = 131
	StreamsTopologyFenced                  int16 = 132
	ShareSessionLimitReached               int16 = 133
	GroupDeletionFailed                    int16 = 134
	StreamsTopologyDescriptionUpdateFailed int16 = 135
	ControllerIDNotRegistered              int16 = 136
)

// CodeName gives Kafka's name of a code ("CORRUPT_MESSAGE"), "NONE" for 0, and UNKNOWN_SERVER_ERROR for a code nobody knows.
func CodeName(code int16) string {
	if code == NoError {
		return "NONE"
	}
	return kerr.TypedErrorForCode(code).Message
}
