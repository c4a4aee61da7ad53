package broker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/catalog"
	"sluice/throttle"
	"sluice/throttle/quota"
)

// Metrics say what was used and who was held; the list of connections says who is.
func TestQuotaIsSeen(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		x := b.topic("x", 1, nil)
		b.quota("", "producer_byte_rate", 1000)
		w := b.dial("c")
		batch := recordBatch(1, 40_000)
		resp := w.do(9, produceRequest(1, x, batch)).(*kmsg.ProduceResponse)
		size := produceRequest(1, x, batch)
		size.SetVersion(9)
		used := len(kmsg.NewRequestFormatter(kmsg.FormatterClientID("c")).AppendRequest(nil, size, 1)) - 4
		held := fmt.Sprint(float64(resp.ThrottleMillis) / 1000)
		_, body := b.asks("/metrics")
		for _, line := range []string{
			`sluice_quota_throttles_total{quota="producer_byte_rate"} 1`, `sluice_quota_throttles_total{quota="consumer_byte_rate"} 0`,
			`sluice_quota_throttle_seconds_total{quota="producer_byte_rate"} ` + held, `sluice_quota_meters{quota="producer_byte_rate"} 1`,
			`sluice_quota_client_limit{client_id="c",quota="producer_byte_rate",user=""} 1000`,
			fmt.Sprintf(`sluice_quota_client_used_total{client_id="c",quota="producer_byte_rate",user=""} %d`, used),
			`sluice_quota_client_throttle_seconds_total{client_id="c",quota="producer_byte_rate",user=""} ` + held,
			`sluice_quota_client_omitted 0`,
		} {
			if !strings.Contains(body, line+"\n") {
				t.Errorf("%q is not in\n%s", line, metricLines(body, "quota"))
			}
		}
		_, body = b.asks("/v1/connections")
		var list struct{ Connections []connectionJSON }
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Connections) != 1 {
			t.Fatal(err, body)
		}
		if c := list.Connections[0]; c.State != "throttled" || c.Muted != float64(resp.ThrottleMillis)/1000 {
			t.Errorf("%+v after %d ms were told", c, resp.ThrottleMillis)
		}
		b.quota("", "producer_byte_rate", 0)
		if _, body = b.asks("/metrics"); !strings.Contains(body, `sluice_quota_throttles_total{quota="producer_byte_rate"} 1`+"\n") || strings.Contains(body, "sluice_quota_client_used_total{") {
			t.Errorf("when the quota is gone:\n%s", metricLines(body, "quota"))
		}
	})
}

// However many client ids there are, and whatever they are, the figures are bounded and can be read.
func TestQuotaSeriesAreBounded(t *testing.T) {
	inBubble(t, throttle.Settings{}, func(b *bubble) {
		b.quota("", "consumer_byte_rate", 1000)
		b.b.quotas.changed([]any{catalog.QuotaChanged{Entity: catalog.QuotaEntity{User: catalog.QuotaName{Given: true, Name: "u"}}, Values: map[string]float64{"consumer_byte_rate": 1}}})
		limits := &b.b.quotas.limits
		for i := range maxShownQuotas + 10 {
			limits.Client("", fmt.Sprint(i), quotaNow())
		}
		for _, id := range []string{"", "*", "\xff"} {
			limits.Client("", id, quotaNow())
		}
		limits.Client("", "worst", quotaNow()).Meter(quota.Fetch).Use(1e9, quotaNow())
		code, body := b.asks("/metrics")
		if n := strings.Count(body, "\nsluice_quota_client_limit{"); code != 200 || n != maxShownQuotas || !strings.Contains(body, `sluice_quota_client_omitted 14`+"\n") || !strings.Contains(body, `client_id="worst"`) {
			t.Errorf("%d: %d series\n%.300s", code, n, metricLines(body, "omitted"))
		}
	})
}
