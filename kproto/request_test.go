package kproto

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// filler fills a request with random values by reflection.
type filler struct {
	*rand.Rand
	maxLen int  // of slices
	tags   bool // unknown tags too
}

func (f filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		f.fillStruct(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(f.text()))
			return
		}
		if f.IntN(5) == 0 {
			return // null where that may be, else empty
		}
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(f.maxLen+1), f.maxLen+1))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Pointer:
		if f.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.Uint64()) >> (64 - v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(f.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(f.Float64())
	default:
		panic(fmt.Sprintf("a %s in a request", v.Type()))
	}
}

func (f filler) fillStruct(v reflect.Value) {
	// Default sets what the encoder compares tagged fields with.
	if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
		d.Default()
	}
	for i := range v.NumField() {
		switch field := v.Field(i); v.Type().Field(i).Name {
		case "Version":
		case "UnknownTags":
			if f.tags && f.IntN(4) == 0 {
				tags := field.Addr().Interface().(*kmsg.Tags)
				for range f.IntN(3) {
					tags.Set(100+f.Uint32N(1000), []byte(f.text()))
				}
			}
		default:
			f.fill(field)
		}
	}
}

func (f filler) text() string { return strings.Repeat("x", f.IntN(6)) }

// eachRequest gives every version of every API that has a schema.
func eachRequest(fn func(key, version int16)) {
	for key, schema := range schemas {
		if schema == nil {
			continue
		}
		for version := range MaxKnownVersion(int16(key)) + 1 {
			fn(int16(key), version)
		}
	}
}

func (f filler) request(key, version int16) (kmsg.Request, []byte) {
	request := kmsg.RequestForKey(key)
	f.fill(reflect.ValueOf(request).Elem())
	request.SetVersion(version)
	return request, request.AppendTo(nil)
}

// TestDecodeRequestAgreesWithKmsg lets kmsg write random requests of every API and version: the
// walker must see their end where it is, and decoding and encoding must give the same bytes.
func TestDecodeRequestAgreesWithKmsg(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(1, 1)), 3, true}
	eachRequest(func(key, version int16) {
		for range 20 {
			_, body := f.request(key, version)
			flexible, _ := Flexible(key, version)
			w := bodyWalker(body, version, flexible)
			if !w.group(schemas[key]) || len(w.rest) != 0 {
				t.Fatalf("%s version %d: %d bytes left of %x, at %q", kmsg.NameForKey(key), version, len(w.rest), body, w.at)
			}
			given := append(bytes.Clone(body), "trailing"...)
			got, err := DecodeRequest(key, version, given)
			clear(given) // the result must not alias it
			if err != nil || got.GetVersion() != version || got.Key() != key || !bytes.Equal(got.AppendTo(nil), body) {
				t.Fatalf("%s version %d: %x became %+v, %v", kmsg.NameForKey(key), version, body, got, err)
			}
		}
	})
}

// spentBytes measures what fn allocates.
func spentBytes(fn func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// allowance is what decoding a body may allocate: the budget, the copy of the body, and some room
// for the allocator's size classes and for what the runtime does meanwhile.
func allowance(body []byte) int {
	return (memoryRatio*len(body)+memoryBase)*5/4 + 2*len(body) + 128<<10
}

// TestDecodeRequestSurvivesCorruption spoils requests byte by byte. What comes of it is either refused
// or decoded within the budget.
func TestDecodeRequestSurvivesCorruption(t *testing.T) {
	f := filler{rand.New(rand.NewPCG(2, 2)), 2, true}
	eachRequest(func(key, version int16) {
		_, body := f.request(key, version)
		for range 12 {
			spoiled := bytes.Clone(body)
			if len(spoiled) > 0 {
				at := f.IntN(len(spoiled))
				for i := at; i < min(at+1+f.IntN(4), len(spoiled)); i++ {
					spoiled[i] = [...]byte{0, 0xff, 0x7f, 0x80, byte(f.Uint32())}[f.IntN(5)]
				}
				spoiled = spoiled[:f.IntN(len(spoiled))+1]
			}
			var err error
			spent := spentBytes(func() { _, err = DecodeRequest(key, version, spoiled) })
			if code := errCode(err); code != NoError && code != InvalidRequest {
				t.Fatalf("%s version %d: %v", kmsg.NameForKey(key), version, err)
			}
			if spent > allowance(spoiled) {
				t.Fatalf("%s version %d: %d bytes allocated for %x", kmsg.NameForKey(key), version, spent, spoiled)
			}
		}
	})
}

// TestDecodeRequestBudget sends the requests that make the most of each byte.
func TestDecodeRequestBudget(t *testing.T) {
	const n = 50_000
	names := kmsg.NewPtrMetadataRequest()
	names.Topics = make([]kmsg.MetadataRequestTopic, n)
	taggedNames := kmsg.NewPtrMetadataRequest()
	taggedNames.Topics = make([]kmsg.MetadataRequestTopic, n)
	small := kmsg.NewPtrIncrementalAlterConfigsRequest()
	small.Resources = make([]kmsg.IncrementalAlterConfigsRequestResource, n)
	taggedSmall := kmsg.NewPtrIncrementalAlterConfigsRequest()
	taggedSmall.Resources = make([]kmsg.IncrementalAlterConfigsRequestResource, n)
	for i := range n {
		taggedNames.Topics[i].UnknownTags.Set(9, nil)
		taggedSmall.Resources[i].UnknownTags.Set(9, nil)
	}
	most, tooMany := kmsg.NewPtrListConfigResourcesRequest(), kmsg.NewPtrListConfigResourcesRequest()
	most.ResourceTypes = make([]int8, maxElements)
	tooMany.ResourceTypes = make([]int8, maxElements+1)
	for _, tt := range []struct {
		name    string
		request kmsg.Request
		want    int16
	}{
		{"names", names, NoError},
		{"names with tags", taggedNames, NoError},
		{"small structs", small, NoError},
		{"small structs with tags", taggedSmall, InvalidRequest},
		{"as many elements as may be", most, NoError},
		{"one more", tooMany, InvalidRequest},
	} {
		tt.request.SetVersion(tt.request.MaxVersion())
		body := tt.request.AppendTo(nil)
		var err error
		spent := spentBytes(func() { _, err = DecodeRequest(tt.request.Key(), tt.request.MaxVersion(), body) })
		if errCode(err) != tt.want || spent > allowance(body) || tt.want != NoError && spent > 64<<10 {
			t.Errorf("%s: %d bytes allocated for %d: %v", tt.name, spent, len(body), err)
		}
	}
}

// TestSchemasNameEveryField compares the rows with kmsg's structs.
func TestSchemasNameEveryField(t *testing.T) {
	var compare func(where string, f *field, in reflect.Type)
	compare = func(where string, f *field, in reflect.Type) {
		for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
			in = in.Elem()
		}
		rows := map[string]*field{}
		for _, fields := range [][]field{f.fields, f.tagged} {
			for i := range fields {
				rows[fields[i].name] = &fields[i]
			}
		}
		for i := range in.NumField() {
			member := in.Field(i)
			row := rows[member.Name]
			switch {
			case member.Name == "Version" || member.Name == "UnknownTags":
			case row == nil:
				t.Errorf("%s: no %s in the schema", where, member.Name)
			case row.kind == group:
				compare(where+"."+row.name, row, member.Type)
			case row.kind == list && row.element.kind == group:
				compare(where+"."+row.name, row.element, member.Type)
			}
			if row != nil && row.tag >= 0 && (row.from != 0 || row.to != never) {
				t.Errorf("%s.%s: the walker does not look at the versions of tagged fields", where, row.name)
			}
		}
	}
	for key, schema := range schemas {
		if schema != nil {
			compare(schema.name, schema, reflect.TypeOf(kmsg.RequestForKey(int16(key))))
		}
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	long := append([]byte{0x80, 0x80, 2}, make([]byte, 32768)...) // a compact string of 32767 bytes
	tooLong := append([]byte{0x81, 0x80, 2}, make([]byte, 32768)...)
	for _, tt := range []struct {
		name    string
		key     kmsg.Key
		version int16
		body    []byte
		want    int16
	}{
		{"null array", kmsg.Metadata, 1, []byte{0xff, 0xff, 0xff, 0xff}, NoError},
		{"null array before it may be", kmsg.Metadata, 0, []byte{0xff, 0xff, 0xff, 0xff}, InvalidRequest},
		{"count -2", kmsg.Metadata, 1, []byte{0xff, 0xff, 0xff, 0xfe}, InvalidRequest},
		{"count above the bytes", kmsg.Metadata, 1, []byte{0, 0, 0, 2, 0, 1, 'a'}, InvalidRequest},
		{"count huge", kmsg.Metadata, 1, []byte{0x7f, 0xff, 0xff, 0xff, 0, 1, 'a'}, InvalidRequest},
		{"null name before it may be", kmsg.Metadata, 4, []byte{0, 0, 0, 1, 0xff, 0xff, 0}, InvalidRequest},
		{"name length -2", kmsg.Metadata, 1, []byte{0, 0, 0, 1, 0xff, 0xfe}, InvalidRequest},
		{"compact null array", kmsg.DescribeGroups, 5, []byte{0, 0, 0}, InvalidRequest},
		{"compact null string", kmsg.SASLAuthenticate, 2, []byte{0, 0}, InvalidRequest},
		{"null bytes", kmsg.SASLAuthenticate, 0, []byte{0xff, 0xff, 0xff, 0xff}, InvalidRequest},
		{"compact count of six bytes", kmsg.DescribeGroups, 5, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 1, 0, 0}, InvalidRequest},
		{"compact count of 33 bits", kmsg.DescribeGroups, 5, []byte{0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0}, InvalidRequest},
		{"compact string of 32767 bytes", kmsg.DescribeGroups, 5, append(append([]byte{2}, long[:3+32767]...), 0, 0), NoError},
		{"compact string of 32768 bytes", kmsg.DescribeGroups, 5, append(append([]byte{2}, tooLong...), 0, 0), InvalidRequest},
		{"tags unsorted", kmsg.ListTransactions, 0, []byte{1, 1, 2, 5, 0, 4, 0}, InvalidRequest},
		{"tags twice", kmsg.ListTransactions, 0, []byte{1, 1, 2, 5, 0, 5, 0}, InvalidRequest},
		{"tags sorted", kmsg.ListTransactions, 0, []byte{1, 1, 2, 4, 0, 5, 0}, NoError},
		{"too many tags", kmsg.ListTransactions, 0, append([]byte{1, 1}, tagList(maxTags+1, numbers(maxTags+1), 0)...), InvalidRequest},
		{"too many bytes in tags", kmsg.ListTransactions, 0, append([]byte{1, 1}, tagList(1, []int{7}, maxTagBytes+1)...), InvalidRequest},
		{"struct absent", kmsg.DescribeTopicPartitions, 0, []byte{1, 0, 0, 0, 1, 0xff, 0}, NoError},
		{"struct present", kmsg.DescribeTopicPartitions, 0, []byte{1, 0, 0, 0, 1, 1, 2, 'a', 0, 0, 0, 0, 0, 0}, NoError},
		{"struct neither", kmsg.DescribeTopicPartitions, 0, []byte{1, 0, 0, 0, 1, 2, 2, 'a', 0, 0, 0, 0, 0, 0}, InvalidRequest},
		{"empty body", kmsg.Heartbeat, 0, nil, InvalidRequest},
		{"no schema", kmsg.LeaderAndISR, 0, nil, UnsupportedVersion},
		{"no such version", kmsg.Heartbeat, 99, nil, UnsupportedVersion},
		{"negative version", kmsg.Heartbeat, -1, nil, UnsupportedVersion},
		{"no such API", -1, 0, nil, UnsupportedVersion},
		{"no such API", kmsg.MaxKey + 1, 0, nil, UnsupportedVersion},
	} {
		if _, err := DecodeRequest(tt.key.Int16(), tt.version, tt.body); errCode(err) != tt.want {
			t.Errorf("%s: got %v, want code %d", tt.name, err, tt.want)
		}
	}
}

func TestDecodeRequestKnownTags(t *testing.T) {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.SetVersion(17)
	id := "cluster"
	fetch.ClusterID = &id
	fetch.ReplicaState.ID = 5
	body := fetch.AppendTo(nil)
	if _, err := DecodeRequest(1, 17, body); err != nil {
		t.Fatal(err)
	}
	// The cluster id stands in tag 0 as: 0, size, length+1, bytes.
	at := bytes.Index(body, []byte(id)) - 2
	for _, change := range []func(b []byte){
		func(b []byte) { b[at]-- },     // the tag ends within its string
		func(b []byte) { b[at+1]-- },   // the string ends before its tag
		func(b []byte) { b[at+1]++ },   // the string ends behind its tag
		func(b []byte) { b[at-1] = 1 }, // twice tag 1
	} {
		spoiled := bytes.Clone(body)
		change(spoiled)
		if _, err := DecodeRequest(1, 17, spoiled); errCode(err) != InvalidRequest {
			t.Errorf("%x: %v", spoiled, err)
		}
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Topics = make([]kmsg.FetchRequestTopic, 100)
	for i := range fetch.Topics {
		fetch.Topics[i].Partitions = make([]kmsg.FetchRequestTopicPartition, 10)
	}
	fetch.SetVersion(17)
	body := fetch.AppendTo(nil)
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			w := bodyWalker(body, 17, true)
			if !w.group(schemas[1]) {
				b.Fatal(w.at)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := DecodeRequest(1, 17, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
