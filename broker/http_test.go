package broker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAdminHTTP(t *testing.T) {
	n := startNode(t, nil)
	c := n.dial()
	c.create(7, false, createEntry("a", 2, 1, "retention.ms", "5000"))
	c.produce("a", 1, "x")
	c.describe(9, false, "no-such-topic")
	h := n.AdminHandler()
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	for _, x := range []struct {
		method, path string
		code         int
		parts        []string
	}{
		{"GET", "/healthz", 200, []string{"ok"}},
		{"GET", "/readyz", 200, []string{"ready"}},
		{"GET", "/metrics", 200, []string{
			`sluice_requests_total{api="CreateTopics"} 1`,
			`sluice_request_errors_total{api="Metadata",error="UNKNOWN_TOPIC_OR_PARTITION"} 1`,
			"sluice_topics 1\n", "sluice_partitions 2\n", "sluice_ready 1\n", "sluice_request_panics_total 0\n",
		}},
		{"GET", "/v1/status", 200, []string{`"cluster_id":"` + n.ClusterID() + `"`, `"topics":1`, `"partitions":2`, `"ready":true`}},
		{"GET", "/v1/topics", 200, []string{`"name":"a"`, `"partitions":2`}},
		{"GET", "/v1/topics/a", 200, []string{`"configs":{"retention.ms":"5000"}`}},
		{"GET", "/v1/topics/b", 404, []string{"no such topic"}},
		{"GET", "/v1/topics/..%2fa", 404, nil},
		{"POST", "/v1/topics", 405, nil},
		{"GET", "/", 404, nil},
	} {
		code, body := get(x.method, x.path)
		if code != x.code {
			t.Errorf("%s %s: %d %s", x.method, x.path, code, body)
		}
		for _, part := range x.parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s %s: %q is not in\n%s", x.method, x.path, part, body)
			}
		}
	}
	var d topicDetails
	_, body := get("GET", "/v1/topics/a")
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Logs) != 2 || d.Logs[0].End != 0 || d.Logs[0].Epoch != -1 || d.Logs[1].HighWatermark != 1 || d.Logs[1].Bytes == 0 || d.Logs[1].Error != "" {
		t.Errorf("logs: %+v", d.Logs)
	}
	n.ready.Store(false)
	if code, _ := get("GET", "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("not ready: %d", code)
	}
	do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 1)
}
