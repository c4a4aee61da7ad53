package kproto

import "github.com/twmb/franz-go/pkg/kmsg"

// requestSchemas tells the walker how each request that a client may send lies on the wire. One row
// is one API; an API without a row is refused. The fields stand in wire order under the names of
// kmsg's struct, each with its type and the versions that have it:
//
//	Name type            in all versions
//	Name type 3+         from version 3 on
//	Name type 0-2        in versions 0 to 2
//	Name type?           may be null; type?9+ from version 9 on
//	Name []int32         an array of plain values
//	Name [A x; B y]      an array of structs
//	Name {A x; B y}      a struct
//	#1 Name type         tagged field 1
var requestSchemas = []struct {
	key    kmsg.Key
	fields string
}{
	{kmsg.Produce, `
		TransactionID string? 3+; Acks int16; TimeoutMillis int32;
		Topics [Topic string 0-12; TopicID uuid 13+; Partitions [Partition int32; Records bytes?]]`},
	{kmsg.Fetch, `
		#0 ClusterID string?; ReplicaID int32 0-14; #1 ReplicaState {ID int32; Epoch int64}; MaxWaitMillis int32; MinBytes int32;
		MaxBytes int32 3+; IsolationLevel int8 4+; SessionID int32 7+; SessionEpoch int32 7+;
		Topics [
			Topic string 0-12; TopicID uuid 13+;
			Partitions [
				Partition int32; CurrentLeaderEpoch int32 9+; FetchOffset int64; LastFetchedEpoch int32 12+; LogStartOffset int64 5+;
				PartitionMaxBytes int32; #0 ReplicaDirectoryID uuid; #1 HighWatermark int64
			]
		];
		ForgottenTopics [Topic string 7-12; TopicID uuid 13+; Partitions []int32] 7+; Rack string 11+`},
	{kmsg.ListOffsets, `
		ReplicaID int32; IsolationLevel int8 2+;
		Topics [Topic string; Partitions [Partition int32; CurrentLeaderEpoch int32 4+; Timestamp int64; MaxNumOffsets int32 0-0]];
		TimeoutMillis int32 10+`},
	{kmsg.Metadata, `
		Topics [TopicID uuid 10+; Topic string?10+]?1+; AllowAutoTopicCreation bool 4+; IncludeClusterAuthorizedOperations bool 8-10;
		IncludeTopicAuthorizedOperations bool 8+`},
	{kmsg.OffsetCommit, `
		Group string; Generation int32 1+; MemberID string 1+; InstanceID string? 7+; RetentionTimeMillis int64 2-4;
		Topics [
			Topic string 0-9; TopicID uuid 10+;
			Partitions [Partition int32; Offset int64; Timestamp int64 1-1; LeaderEpoch int32 6+; Metadata string?]
		]`},
	{kmsg.OffsetFetch, `
		Group string 0-7; Topics [Topic string; Partitions []int32]?2+ 0-7;
		Groups [
			Group string; MemberID string? 9+; MemberEpoch int32 9+; Topics [Topic string 8-9; TopicID uuid 10+; Partitions []int32]?
		] 8+;
		RequireStable bool 7+`},
	{kmsg.FindCoordinator, `CoordinatorKey string 0-3; CoordinatorType int8 1+; CoordinatorKeys []string 4+`},
	{kmsg.JoinGroup, `
		Group string; SessionTimeoutMillis int32; RebalanceTimeoutMillis int32 1+; MemberID string; InstanceID string? 5+;
		ProtocolType string; Protocols [Name string; Metadata bytes]; Reason string? 8+`},
	{kmsg.Heartbeat, `Group string; Generation int32; MemberID string; InstanceID string? 3+`},
	{kmsg.LeaveGroup, `Group string; MemberID string 0-2; Members [MemberID string; InstanceID string?; Reason string? 5+] 3+`},
	{kmsg.SyncGroup, `
		Group string; Generation int32; MemberID string; InstanceID string? 3+; ProtocolType string? 5+; Protocol string? 5+;
		GroupAssignment [MemberID string; MemberAssignment bytes]`},
	{kmsg.DescribeGroups, `Groups []string; IncludeAuthorizedOperations bool 3+`},
	{kmsg.ListGroups, `StatesFilter []string 4+; TypesFilter []string 5+`},
	{kmsg.SASLHandshake, `Mechanism string`},
	{kmsg.ApiVersions, `ClientSoftwareName string 3+; ClientSoftwareVersion string 3+; ClusterID string? 5+; NodeID int32 5+`},
	{kmsg.CreateTopics, `
		Topics [
			Topic string; NumPartitions int32; ReplicationFactor int16; ReplicaAssignment [Partition int32; Replicas []int32];
			Configs [Name string; Value string?]
		];
		TimeoutMillis int32; ValidateOnly bool 1+`},
	{kmsg.DeleteTopics, `TopicNames []string 0-5; Topics [Topic string?; TopicID uuid] 6+; TimeoutMillis int32`},
	{kmsg.DeleteRecords, `Topics [Topic string; Partitions [Partition int32; Offset int64]]; TimeoutMillis int32`},
	{kmsg.InitProducerID, `TransactionalID string?; TransactionTimeoutMillis int32; ProducerID int64 3+; ProducerEpoch int16 3+`},
	{kmsg.OffsetForLeaderEpoch, `ReplicaID int32 3+; Topics [Topic string; Partitions [Partition int32; CurrentLeaderEpoch int32 2+; LeaderEpoch int32]]`},
	{kmsg.AddPartitionsToTxn, `
		TransactionalID string 0-3; ProducerID int64 0-3; ProducerEpoch int16 0-3; Topics [Topic string; Partitions []int32] 0-3;
		Transactions [
			TransactionalID string; ProducerID int64; ProducerEpoch int16; VerifyOnly bool; Topics [Topic string; Partitions []int32]
		] 4+`},
	{kmsg.AddOffsetsToTxn, `TransactionalID string; ProducerID int64; ProducerEpoch int16; Group string`},
	{kmsg.EndTxn, `TransactionalID string; ProducerID int64; ProducerEpoch int16; Commit bool`},
	{kmsg.TxnOffsetCommit, `
		TransactionalID string; Group string; ProducerID int64; ProducerEpoch int16; Generation int32 3+; MemberID string 3+;
		InstanceID string? 3+;
		Topics [
			Topic string 0-5; TopicID uuid 6+; Partitions [Partition int32; Offset int64; LeaderEpoch int32 2+; Metadata string?]
		]`},
	{kmsg.DescribeACLs, `
		ResourceType int8; ResourceName string?; ResourcePatternType int8 1+; Principal string?; Host string?; Operation int8;
		PermissionType int8`},
	{kmsg.CreateACLs, `
		Creations [
			ResourceType int8; ResourceName string; ResourcePatternType int8 1+; Principal string; Host string; Operation int8;
			PermissionType int8
		]`},
	{kmsg.DeleteACLs, `
		Filters [
			ResourceType int8; ResourceName string?; ResourcePatternType int8 1+; Principal string?; Host string?; Operation int8;
			PermissionType int8
		]`},
	{kmsg.DescribeConfigs, `Resources [ResourceType int8; ResourceName string; ConfigNames []string?]; IncludeSynonyms bool 1+; IncludeDocumentation bool 3+`},
	{kmsg.AlterConfigs, `Resources [ResourceType int8; ResourceName string; Configs [Name string; Value string?]]; ValidateOnly bool`},
	{kmsg.AlterReplicaLogDirs, `Dirs [Dir string; Topics [Topic string; Partitions []int32]]`},
	{kmsg.DescribeLogDirs, `Topics [Topic string; Partitions []int32]?`},
	{kmsg.SASLAuthenticate, `SASLAuthBytes bytes`},
	{kmsg.CreatePartitions, `Topics [Topic string; Count int32; Assignment [Replicas []int32]?]; TimeoutMillis int32; ValidateOnly bool`},
	{kmsg.DeleteGroups, `Groups []string`},
	{kmsg.ElectLeaders, `ElectionType int8 1+; Topics [Topic string; Partitions []int32]?; TimeoutMillis int32`},
	{kmsg.IncrementalAlterConfigs, `Resources [ResourceType int8; ResourceName string; Configs [Name string; Op int8; Value string?]]; ValidateOnly bool`},
	{kmsg.AlterPartitionAssignments, `TimeoutMillis int32; AllowReplicationFactorChange bool 1+; Topics [Topic string; Partitions [Partition int32; Replicas []int32?]]`},
	{kmsg.ListPartitionReassignments, `TimeoutMillis int32; Topics [Topic string; Partitions []int32]?`},
	{kmsg.OffsetDelete, `Group string; Topics [Topic string; Partitions [Partition int32]]`},
	{kmsg.DescribeClientQuotas, `Components [EntityType string; MatchType int8; Match string?]; Strict bool`},
	{kmsg.AlterClientQuotas, `Entries [Entity [Type string; Name string?]; Ops [Key string; Value float64; Remove bool]]; ValidateOnly bool`},
	{kmsg.DescribeUserSCRAMCredentials, `Users [Name string]?`},
	{kmsg.AlterUserSCRAMCredentials, `
		Deletions [Name string; Mechanism int8];
		Upsertions [Name string; Mechanism int8; Iterations int32; Salt bytes; SaltedPassword bytes]`},
	{kmsg.DescribeQuorum, `Topics [Topic string; Partitions [Partition int32]]`},
	{kmsg.UpdateFeatures, `
		TimeoutMillis int32; FeatureUpdates [Feature string; MaxVersionLevel int16; AllowDowngrade bool 0-0; UpgradeType int8 1+];
		ValidateOnly bool 1+`},
	{kmsg.DescribeCluster, `IncludeClusterAuthorizedOperations bool; EndpointType int8 1+; IncludeFencedBrokers bool 2+`},
	{kmsg.DescribeProducers, `Topics [Topic string; Partitions []int32]`},
	{kmsg.DescribeTransactions, `TransactionalIDs []string`},
	{kmsg.ListTransactions, `StateFilters []string; ProducerIDFilters []int64; DurationFilterMillis int64 1+; TransactionalIDPattern string? 2+`},
	{kmsg.ConsumerGroupHeartbeat, `
		Group string; MemberID string; MemberEpoch int32; InstanceID string?; RackID string?; RebalanceTimeoutMillis int32;
		SubscribedTopicNames []string?; SubscribedTopicRegex string? 1+; ServerAssignor string?;
		Topics [TopicID uuid; Partitions []int32]?`},
	{kmsg.ConsumerGroupDescribe, `Groups []string; IncludeAuthorizedOperations bool`},
	{kmsg.GetTelemetrySubscriptions, `ClientInstanceID uuid`},
	{kmsg.PushTelemetry, `ClientInstanceID uuid; SubscriptionID int32; Terminating bool; CompressionType int8; Metrics bytes`},
	{kmsg.ListConfigResources, `ResourceTypes []int8 1+`},
	{kmsg.DescribeTopicPartitions, `Topics [Topic string]; ResponsePartitionLimit int32; Cursor {Topic string; Partition int32}?`},
	{kmsg.ShareGroupHeartbeat, `GroupID string; MemberID string; MemberEpoch int32; RackID string?; SubscribedTopicNames []string?`},
	{kmsg.ShareGroupDescribe, `GroupIDs []string; IncludeAuthorizedOperations bool`},
	{kmsg.ShareFetch, `
		GroupID string?; MemberID string?; ShareSessionEpoch int32; MaxWaitMillis int32; MinBytes int32; MaxBytes int32;
		MaxRecords int32 1+; BatchSize int32 1+; ShareAcquireMode int8 2+; IsRenewAck bool 2+;
		Topics [
			TopicID uuid;
			Partitions [
				Partition int32; PartitionMaxBytes int32 0-0;
				AcknowledgementBatches [FirstOffset int64; LastOffset int64; AcknowledgeTypes []int8]
			]
		];
		ForgottenTopicsData [TopicID uuid; Partitions []int32]`},
	{kmsg.ShareAcknowledge, `
		GroupID string?; MemberID string?; ShareSessionEpoch int32; IsRenewAck bool 2+;
		Topics [
			TopicID uuid;
			Partitions [Partition int32; AcknowledgementBatches [FirstOffset int64; LastOffset int64; AcknowledgeTypes []int8]]
		]`},
	{kmsg.StreamsGroupHeartbeat, `
		Group string; MemberID string; MemberEpoch int32; EndpointInformationEpoch int32; InstanceID string?; RackID string?;
		RebalanceTimeoutMillis int32;
		Topology {
			Epoch int32;
			Subtopologies [
				SubtopologyID string; SourceTopics []string; SourceTopicRegex []string;
				StateChangelogTopics [Topic string; NumPartitions int32; ReplicationFactor int16; Configs [Key string; Value string]];
				RepartitionSinkTopics []string;
				RepartitionSourceTopics [Topic string; NumPartitions int32; ReplicationFactor int16; Configs [Key string; Value string]];
				CopartitionGroups [SourceTopics []int16; SourceTopicRegex []int16; RepartitionSourceTopics []int16]
			]
		}?;
		ActiveTasks [SubtopologyID string; Partitions []int32]?; StandbyTasks [SubtopologyID string; Partitions []int32]?;
		WarmupTasks [SubtopologyID string; Partitions []int32]?; ProcessID string?; UserEndpoint {Host string; Port uint16}?;
		ClientTags [Key string; Value string]?; TaskOffsets [SubtopologyID string; Partition int32; Offset int64]?;
		TaskEndOffsets [SubtopologyID string; Partition int32; Offset int64]?; ShutdownApplication bool`},
	{kmsg.StreamsGroupDescribe, `Groups []string; IncludeAuthorizedOperations bool; IncludeTopologyDescription bool 1+`},
	{kmsg.DescribeShareGroupOffsets, `Groups [GroupID string; Topics [Topic string; Partitions []int32]?]`},
	{kmsg.AlterShareGroupOffsets, `GroupID string; Topics [Topic string; Partitions [Partition int32; StartOffset int64]]`},
	{kmsg.DeleteShareGroupOffsets, `GroupID string; Topics [Topic string]`},
	{kmsg.StreamsGroupTopologyDescriptionUpdate, `
		Group string; MemberID string; TopologyEpoch int32;
		TopologyDescription {
			Subtopologies [
				SubtopologyID string;
				Nodes [Name string; NodeType int8; SourceTopics []string; SinkTopic string?; Stores []string; Successors []string]
			];
			GlobalStores [
				Source {Name string; NodeType int8; SourceTopics []string; SinkTopic string?; Stores []string; Successors []string};
				Processor {Name string; NodeType int8; SourceTopics []string; SinkTopic string?; Stores []string; Successors []string}
			]
		}`},
}
