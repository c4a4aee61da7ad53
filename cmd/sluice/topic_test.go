package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTopicLifecycle(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "orders", "-p", "3", "--config", "retention.ms=1000", "-c", "cleanup.policy=compact")
	must(t, "", "topic", "create", "audit", "-p", "1")

	var listed []topicListing
	decode(t, must(t, "", "topic", "list", "-o", "json"), &listed)
	if len(listed) != 2 || listed[0].Name != "audit" || listed[1].Partitions != 3 || len(listed[1].ID) != 22 {
		t.Errorf("listed %+v", listed)
	}
	if table := must(t, "", "topic", "ls"); !strings.Contains(table, "orders  3") {
		t.Errorf("table:\n%s", table)
	}

	must(t, "", "topic", "alter", "orders", "--partitions", "5", "--set", "max.message.bytes=2000", "--unset", "retention.ms")
	topic := describe(t, "orders")
	if len(topic.Partitions) != 5 {
		t.Errorf("%d partitions after the change to 5", len(topic.Partitions))
	}
	configs := map[string]string{}
	for _, c := range topic.Configs {
		configs[c.Name] = *c.Value
	}
	if configs["max.message.bytes"] != "2000" || configs["cleanup.policy"] != "compact" {
		t.Errorf("configs %v", configs)
	}
	if _, ok := configs["retention.ms"]; ok {
		t.Errorf("retention.ms is still there: %v", configs)
	}

	must(t, "", "topic", "delete", "orders", "audit")
	if out := must(t, "", "topic", "list", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("after the deletion: %s", out)
	}
}

func TestTopicDescribeShowsOffsets(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "lines", "-p", "2")
	must(t, "a\nb\nc\n", "produce", "lines", "-p", "1")
	p := describe(t, "lines").Partitions[1]
	if p.Partition != 1 || p.StartOffset != 0 || p.EndOffset != 3 {
		t.Errorf("partition %+v", p)
	}
	if d := describe(t, "lines").Disks; len(d) != 1 || d[0].UsableBytes <= 0 {
		t.Errorf("disks %+v", d)
	}
	if table := must(t, "", "topic", "describe", "lines"); !strings.Contains(table, "PARTITION") {
		t.Errorf("table:\n%s", table)
	}
}

func TestTopicErrorsSayWhatToDo(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "twice", "-p", "2")
	tests := map[string]struct {
		args []string
		want string
	}{
		"create again":       {[]string{"topic", "create", "twice"}, "--if-not-exists"},
		"describe a missing": {[]string{"topic", "describe", "nothing"}, "sluice topic list"},
		"delete a missing":   {[]string{"topic", "delete", "nothing"}, "UNKNOWN_TOPIC_OR_PARTITION"},
		"alter a missing":    {[]string{"topic", "alter", "nothing", "--partitions", "4"}, "UNKNOWN_TOPIC_OR_PARTITION"},
		"fewer partitions":   {[]string{"topic", "alter", "twice", "--partitions", "1"}, "INVALID_PARTITIONS"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := sluice(t, "", tc.args...)
			if r.code != exitFailed || !strings.Contains(r.err, tc.want) {
				t.Errorf("code %d, err %q, want %q", r.code, r.err, tc.want)
			}
		})
	}
	must(t, "", "topic", "create", "twice", "--if-not-exists")
	must(t, "", "topic", "delete", "nothing", "--if-exists")
}

// TestTopicErrorsDoNotHideEachOther: of two topics one fails, the other is made, and the command fails.
func TestTopicErrorsDoNotHideEachOther(t *testing.T) {
	startBroker(t)
	must(t, "", "topic", "create", "old")
	if r := sluice(t, "", "topic", "create", "old", "new"); r.code != exitFailed || !strings.Contains(r.out, "created topic new") {
		t.Errorf("code %d, out %q", r.code, r.out)
	}
}

func describe(t *testing.T, name string) topicDescription {
	t.Helper()
	var topics []topicDescription
	decode(t, must(t, "", "topic", "describe", name, "-o", "json"), &topics)
	if len(topics) != 1 {
		t.Fatalf("%d topics", len(topics))
	}
	return topics[0]
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
