package broker

import (
	"maps"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// change is what is to become of one resource's config.
type change struct {
	typ   kmsg.ConfigResourceType
	name  string
	set   map[string]string
	unset []string
}

// alter changes configs incrementally, all resources in one request.
func (w *world) alter(edits ...change) {
	w.t.Helper()
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, e := range edits {
		rr := kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = e.typ, e.name
		for k, v := range e.set {
			rr.Configs = append(rr.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Value: &v})
		}
		for _, k := range e.unset {
			rr.Configs = append(rr.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Op: 1})
		}
		q.Resources = append(q.Resources, rr)
	}
	if !w.alterable(edits) {
		return
	}
	want := w.askToAlter(edits, false)
	var codes []int16
	for _, x := range do[*kmsg.IncrementalAlterConfigsResponse](w.c, q, 1).Resources {
		codes = append(codes, x.ErrorCode)
	}
	w.altered(edits, want, codes)
}

// replace is the older way: what a resource has is what it is given.
func (w *world) replace(e change) {
	w.t.Helper()
	q := kmsg.NewPtrAlterConfigsRequest()
	rr := kmsg.NewAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = e.typ, e.name
	for k, v := range e.set {
		rr.Configs = append(rr.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: k, Value: &v})
	}
	q.Resources = append(q.Resources, rr)
	if !w.alterable([]change{e}) {
		return
	}
	want := w.askToAlter([]change{e}, true)
	x := do[*kmsg.AlterConfigsResponse](w.c, q, 2).Resources[0]
	w.altered([]change{e}, want, []int16{x.ErrorCode})
}

// alterable tells whether the topics are there.
func (w *world) alterable(edits []change) bool {
	w.t.Helper()
	for _, e := range edits {
		if e.typ == kmsg.ConfigResourceTypeTopic && w.current(e.name) == nil {
			return false
		}
	}
	return true
}

// askToAlter notes what the edits may come to, and gives it: "" when it depends on what became of earlier ones.
func (w *world) askToAlter(edits []change, replace bool) (want []string) {
	w.book.ask(func(p *pages) {
		for _, e := range edits {
			var last string
			n := 0
			p.config(e.typ, e.name, func(set *possible[string]) {
				for _, old := range *set {
					last = e.apply(old, replace)
					set.maybe(last)
					n++
				}
			})
			if n > 1 {
				last = ""
			}
			want = append(want, last)
		}
	})
	return want
}

func (w *world) altered(edits []change, want []string, codes []int16) {
	w.t.Helper()
	w.book.answer(func(p *pages) {
		for i, e := range edits {
			if w.decided("alter "+e.name, codes[i]) && want[i] != "" {
				p.config(e.typ, e.name, func(set *possible[string]) { set.sure(want[i]) })
			}
		}
	})
	w.resolve()
}

func (e change) apply(old string, replace bool) string {
	config := map[string]string{}
	if !replace {
		config = parseCanonical(old)
	}
	maps.Copy(config, e.set)
	for _, k := range e.unset {
		delete(config, k)
	}
	return canonical(config)
}
