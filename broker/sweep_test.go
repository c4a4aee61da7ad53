package broker

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/kproto"
)

// Every array of every API, null and empty and with one element, at every depth: the broker answers or hangs up, and
// is as well as before (CVE-2026-83525 was an empty array that killed a controller).
func TestArraySweep(t *testing.T) {
	n := startNode(t, nil)
	n.dial().mustCreate("a")
	for _, r := range table {
		for version := r.accept; version <= r.max; version++ {
			sweep(t, n, r, version)
		}
	}
	if names := n.dial().names(); !slices.Contains(names, "a") {
		t.Errorf("topics are %v", names)
	}
	if n.logs.contains("panicked") {
		t.Errorf("a request panicked:\n%s", n.logs)
	}
}

func sweep(t *testing.T, n *node, r row, version int16) {
	req := kmsg.RequestForKey(r.key)
	for _, path := range slicePaths(reflect.TypeOf(req).Elem()) {
		for _, fill := range []string{"null", "empty", "one"} {
			req := kmsg.RequestForKey(r.key)
			reflect.ValueOf(req).MethodByName("Default").Call(nil)
			setPath(reflect.ValueOf(req).Elem(), path, fill)
			quicken(req)
			what := fmt.Sprintf("%s v%d %v %s", r.name, version, path, fill)
			_, err := n.dial().try(req, version)
			if err != nil && isDecodable(req, version) {
				t.Errorf("%s: hung up on a request that can be decoded: %v", what, err)
			}
		}
	}
	if _, err := n.dial().try(kmsg.NewPtrMetadataRequest(), 1); err != nil {
		t.Fatalf("%s v%d: the broker is not well afterwards: %v", r.name, version, err)
	}
}

// isDecodable tells whether the body is one that the broker's decoder takes; then it owes an answer.
func isDecodable(req kmsg.Request, version int16) bool {
	req.SetVersion(version)
	_, err := kproto.DecodeRequest(req.Key(), version, req.AppendTo(nil))
	return err == nil
}

// quicken keeps requests from waiting, and from having no answer.
func quicken(req kmsg.Request) {
	switch q := req.(type) {
	case *kmsg.FetchRequest:
		q.MaxWaitMillis = 0
	case *kmsg.ProduceRequest:
		q.Acks = -1
	}
}

// slicePaths lists the arrays of a message as paths of field names.
func slicePaths(typ reflect.Type) (paths [][]string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() == reflect.Uint8 {
			continue
		}
		paths = append(paths, []string{f.Name})
		if f.Type.Elem().Kind() == reflect.Struct {
			for _, sub := range slicePaths(f.Type.Elem()) {
				paths = append(paths, append([]string{f.Name}, sub...))
			}
		}
	}
	return paths
}

// setPath fills the array at the path; those on the way there get one element.
func setPath(v reflect.Value, path []string, fill string) {
	f := v.FieldByName(path[0])
	if len(path) == 1 && fill != "one" {
		if fill == "empty" {
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
		}
		return
	}
	f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	element := f.Index(0)
	if d := element.Addr().MethodByName("Default"); d.IsValid() {
		d.Call(nil)
	}
	if len(path) > 1 {
		setPath(element, path[1:], fill)
	}
}
