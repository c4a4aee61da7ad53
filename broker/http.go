package broker

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminHandler serves what operators and the command line ask beside Kafka's protocol. It reads only; whoever may
// connect may read all of it, so it is for the admin socket.
//
//	/metrics                 Prometheus
//	/healthz                 200 while the process runs
//	/readyz                  200 while requests are served, else 503
//	/v1/status               cluster, epoch, counts
//	/v1/topics               every topic
//	/v1/topics/{name}        one topic with its settings and its partitions' offsets
//	/v1/throttle/{topic}/{partition}  the limits of dispatch there, how they stand and who waits; ?group=
//	/v1/connections          who reads what, and for which group; ?group=, ?topic=, ?client_id=
func (b *Broker) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", b.serveReady)
	mux.HandleFunc("GET /v1/status", b.serveStatus)
	mux.HandleFunc("GET /v1/topics", b.serveTopics)
	mux.HandleFunc("GET /v1/topics/{name}", b.serveTopic)
	mux.HandleFunc("GET /v1/connections", b.serveConnections)
	mux.HandleFunc("GET /v1/throttle/{topic}/{partition}", b.serveThrottle)
	return mux
}

func (b *Broker) serveReady(w http.ResponseWriter, _ *http.Request) {
	if b.ready.Load() {
		writeText(w, http.StatusOK, "ready\n")
		return
	}
	writeText(w, http.StatusServiceUnavailable, "not ready\n")
}

// Status is the body of /v1/status.
type Status struct {
	ClusterID  string `json:"cluster_id"`
	NodeID     int32  `json:"node_id"`
	Epoch      int32  `json:"epoch"`
	Ready      bool   `json:"ready"`
	Topics     int    `json:"topics"`
	Partitions int    `json:"partitions"`
	DataDir    string `json:"data_dir"`
}

// Status tells what /v1/status does.
func (b *Broker) Status() Status {
	topics, partitions := b.topics.count()
	return Status{b.clusterID, NodeID, b.epoch, b.ready.Load(), topics, partitions, b.opts.DataDir}
}

func (b *Broker) serveStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, b.Status())
}

// topicJSON is a topic of /v1/topics.
type topicJSON struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Internal   bool   `json:"internal,omitempty"`
	Partitions int32  `json:"partitions"`
}

func (t *topic) json() topicJSON {
	return topicJSON{t.name, t.id.String(), t.internal, t.partitions()}
}

func (b *Broker) serveTopics(w http.ResponseWriter, _ *http.Request) {
	all := []topicJSON{}
	b.topics.each(func(t *topic) bool {
		all = append(all, t.json())
		return true
	})
	writeJSON(w, http.StatusOK, map[string]any{"topics": all})
}

// topicDetails is the body of /v1/topics/{name}.
type topicDetails struct {
	topicJSON
	Configs map[string]string `json:"configs"` // what is set for this topic
	Logs    []partitionJSON   `json:"logs"`
}

// partitionJSON is one partition: offsets and bytes, or why there are none.
type partitionJSON struct {
	Partition     int32  `json:"partition"`
	Start         int64  `json:"start"`
	Stable        int64  `json:"stable"`
	HighWatermark int64  `json:"high_watermark"`
	End           int64  `json:"end"`
	Epoch         int32  `json:"epoch"` // of the data; -1 when empty
	Bytes         int64  `json:"bytes"`
	Error         string `json:"error,omitempty"`
}

func (b *Broker) serveTopic(w http.ResponseWriter, r *http.Request) {
	t := b.topics.byName(r.PathValue("name"))
	if t == nil {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "no such topic"})
		return
	}
	d := topicDetails{topicJSON: t.json(), Configs: t.raw().Config, Logs: []partitionJSON{}}
	if d.Configs == nil {
		d.Configs = map[string]string{}
	}
	for i := range t.partitions() {
		d.Logs = append(d.Logs, t.partitionJSON(i))
	}
	writeJSON(w, http.StatusOK, d)
}

func (t *topic) partitionJSON(i int32) partitionJSON {
	p := partitionJSON{Partition: i, Epoch: -1}
	l := t.used(i)
	if l == nil {
		return p // nothing was ever written
	}
	o, err := l.Offsets()
	if err == nil {
		p.Start, p.Stable, p.HighWatermark, p.End = o.Start, o.Stable, o.High, o.End
		p.Epoch, err = l.Epoch()
	}
	if err == nil {
		p.Bytes, err = l.Size()
	}
	if err != nil {
		p.Error = err.Error()
	}
	return p
}

func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the reader hung up: nobody to tell
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // as above
}
