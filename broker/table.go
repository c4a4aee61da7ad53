package broker

import (
	"fmt"

	"sluice/internal/server"
)

//go:generate go test -run ^TestAPIsPage$ -update .

// row is everything the broker states about one API: dispatch, ApiVersions, docs/apis.md and (later) throttle class and
// authorization read it.
type row struct {
	key      int16
	name     string
	min, max int16 // advertised
	accept   int16 // lowest version accepted, where it differs from min
	class    throttleClass
	acl      string // what authorization the API needs
	handle   func(b *Broker, r *server.Request)
}

// throttleClass says which client quota an API draws on (KIP-13, KIP-124, KIP-599).
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

// rows has one row per API, in order of key. The versions are what clients in use need (KIP-896 took the older ones away). A raised
// minimum switches features off in clients that look for one exact version, so the minima are Kafka's.
func rows() []row {
	return []row{
		{0, "Produce", 0, 13, 3, classProduce, "WRITE Topic; WRITE TransactionalId for transactional batches", produce},
		{1, "Fetch", 4, 18, 4, classFetch, "READ Topic; CLUSTER_ACTION Cluster for replicas", fetch},
		{2, "ListOffsets", 1, 11, 1, classRequest, "DESCRIBE Topic", typed((*Broker).listOffsets)},
		{18, "ApiVersions", 0, 4, 0, classRequest, "none", typed((*Broker).apiVersions)},
		{22, "InitProducerId", 0, 5, 0, classRequest, "WRITE TransactionalId; else IDEMPOTENT_WRITE Cluster or WRITE on any Topic", typed((*Broker).initProducerID)},
		{23, "OffsetForLeaderEpoch", 2, 4, 2, classRequest, "CLUSTER_ACTION Cluster or DESCRIBE Topic", typed((*Broker).offsetForLeaderEpoch)},
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
		row.handle(b, r)
	}
}
