package broker

import (
	"fmt"

	"sluice/internal/server"
)

//go:generate go test -run ^TestAPIsPage$ -update .

// row is everything the broker states about one API: dispatch, ApiVersions, docs/apis.md and (later) authorization read
// it.
type row struct {
	key      int16
	name     string
	min, max int16 // advertised
	accept   int16 // lowest version accepted, where it differs from min
	class    throttleClass
	acl      string // what authorization the API needs
	handle   func(b *Broker, r *server.Request)
}

// throttleClass says which client quota an API draws on (KIP-13, KIP-124, KIP-599), beside that on request time, which all do.
type throttleClass uint8

const (
	classNone     throttleClass = iota
	classProduce                // bytes in
	classFetch                  // bytes out
	classRequest                // request time
	classMutation               // controller mutations
)

func (c throttleClass) String() string {
	return [...]string{"none", "produce", "fetch", "request", "controller mutation"}[c]
}

// rows has one row per API, in order of key. The versions are what clients in use need (KIP-896 took the older ones
// away). A raised minimum switches features off in clients that look for one exact version, so the minima are
// Kafka's.
func rows() []row {
	return []row{
		{0, "Produce", 0, 13, 3, classProduce, "WRITE Topic; WRITE TransactionalId for transactional batches", produce},
		{1, "Fetch", 4, 18, 4, classFetch, "READ Topic; CLUSTER_ACTION Cluster for replicas", fetch},
		{2, "ListOffsets", 1, 11, 1, classRequest, "DESCRIBE Topic", typed((*Broker).listOffsets)},
		{3, "Metadata", 0, 13, 0, classRequest, "DESCRIBE Topic; to create one: CREATE Topic or Cluster", typed((*Broker).metadata)},
		{8, "OffsetCommit", 2, 10, 0, classRequest, "READ Group and Topic", typed((*Broker).offsetCommit)},
		{9, "OffsetFetch", 1, 10, 0, classRequest, "DESCRIBE Group and Topic", typed((*Broker).offsetFetch)},
		{10, "FindCoordinator", 0, 6, 0, classRequest, "DESCRIBE Group or TransactionalId", typed((*Broker).findCoordinator)},
		{11, "JoinGroup", 0, 9, 0, classRequest, "READ Group", typed((*Broker).joinGroup)},
		{12, "Heartbeat", 0, 4, 0, classRequest, "READ Group", typed((*Broker).heartbeat)},
		{13, "LeaveGroup", 0, 5, 0, classRequest, "READ Group", typed((*Broker).leaveGroup)},
		{14, "SyncGroup", 0, 5, 0, classRequest, "READ Group", typed((*Broker).syncGroup)},
		{15, "DescribeGroups", 0, 6, 0, classRequest, "DESCRIBE Group", typed((*Broker).describeGroups)},
		{16, "ListGroups", 0, 5, 0, classRequest, "DESCRIBE Cluster, else what DESCRIBE Group allows", typed((*Broker).listGroups)},
		{18, "ApiVersions", 0, 4, 0, classRequest, "none", typed((*Broker).apiVersions)},
		{19, "CreateTopics", 2, 7, 0, classMutation, "CREATE Topic or Cluster; DESCRIBE_CONFIGS Topic to see settings", typed((*Broker).createTopics)},
		{20, "DeleteTopics", 1, 6, 0, classMutation, "DELETE Topic; by id also DESCRIBE Topic", typed((*Broker).deleteTopics)},
		{21, "DeleteRecords", 0, 2, 0, classRequest, "DELETE Topic", typed((*Broker).deleteRecords)},
		{22, "InitProducerId", 0, 5, 0, classRequest, "WRITE TransactionalId; else IDEMPOTENT_WRITE Cluster or WRITE on any Topic", typed((*Broker).initProducerID)},
		{23, "OffsetForLeaderEpoch", 2, 4, 2, classRequest, "CLUSTER_ACTION Cluster or DESCRIBE Topic", typed((*Broker).offsetForLeaderEpoch)},
		{32, "DescribeConfigs", 1, 4, 0, classRequest, "DESCRIBE_CONFIGS Topic, Cluster or Group", typed((*Broker).describeConfigs)},
		{33, "AlterConfigs", 0, 2, 0, classRequest, "ALTER_CONFIGS Topic, Cluster or Group", typed((*Broker).alterConfigs)},
		{35, "DescribeLogDirs", 1, 4, 0, classRequest, "DESCRIBE Cluster", typed((*Broker).describeLogDirs)},
		{37, "CreatePartitions", 0, 3, 0, classMutation, "ALTER Topic", typed((*Broker).createPartitions)},
		{42, "DeleteGroups", 0, 2, 0, classRequest, "DELETE Group", typed((*Broker).deleteGroups)},
		{44, "IncrementalAlterConfigs", 0, 1, 0, classRequest, "ALTER_CONFIGS Topic, Cluster or Group", typed((*Broker).incrementalAlterConfigs)},
		{47, "OffsetDelete", 0, 0, 0, classRequest, "DELETE Group; READ Topic", typed((*Broker).offsetDelete)},
		{48, "DescribeClientQuotas", 0, 1, 0, classRequest, "DESCRIBE_CONFIGS Cluster", typed((*Broker).describeClientQuotas)},
		{49, "AlterClientQuotas", 0, 1, 0, classRequest, "ALTER_CONFIGS Cluster", typed((*Broker).alterClientQuotas)},
		{50, "DescribeUserScramCredentials", 0, 0, 0, classRequest, "DESCRIBE Cluster", typed((*Broker).describeUserScramCredentials)},
		{60, "DescribeCluster", 0, 2, 0, classRequest, "none; DESCRIBE Cluster for authorized operations", typed((*Broker).describeCluster)},
		{68, "ConsumerGroupHeartbeat", 0, 1, 0, classRequest, "READ Group; DESCRIBE Topic to subscribe", typed((*Broker).consumerGroupHeartbeat)},
		{69, "ConsumerGroupDescribe", 0, 1, 0, classRequest, "DESCRIBE Group; topics that may not be described are left out", typed((*Broker).consumerGroupDescribe)},
		{74, "ListConfigResources", 0, 1, 0, classRequest, "DESCRIBE_CONFIGS Cluster", typed((*Broker).listConfigResources)},
		{75, "DescribeTopicPartitions", 0, 0, 0, classRequest, "DESCRIBE Topic", typed((*Broker).describeTopicPartitions)},
	}
}

// table is rows(), set by init since the handlers read it.
var table []row

func init() {
	table = rows()
	for i := range table {
		r := &table[i]
		r.accept = max(r.accept, r.min)
		if byKey[r.key] != nil {
			panic(fmt.Sprintf("two rows for API %d", r.key))
		}
		byKey[r.key] = r
	}
}

// maxKey is the largest API key that the table can hold.
const maxKey = 92

var byKey [maxKey + 1]*row

// rowOf gives nil for an API that is not served.
func rowOf(key int16) *row {
	if key < 0 || key > maxKey {
		return nil
	}
	return byKey[key]
}

// Handle runs stage one of a request. An unknown API or version closes the connection, as in Kafka; only ApiVersions
// answers, so that a newer client learns what it may send.
func (b *Broker) Handle(r *server.Request) {
	defer b.recovered(r)
	row := rowOf(r.Key)
	switch {
	case row == nil:
		r.Abort(fmt.Sprintf("API key %d is not served", r.Key))
	case r.Version < row.accept || r.Version > row.max:
		if row.key == apiVersionsKey {
			b.unsupportedAPIVersions(r)
			return
		}
		r.Abort(fmt.Sprintf("%s version %d is not served", row.name, r.Version))
	default:
		b.metrics.requested(row)
		if b.quotas.limits.Active() {
			b.handleMetered(row, r)
			return
		}
		row.handle(b, r)
	}
}
