package kproto

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kind is how a field lies on the wire.
type kind uint8

const (
	fixed kind = iota // a number of bytes that the schema knows
	text              // a length of 16 bits or compact, and so many bytes
	blob              // a length of 32 bits or compact, and so many bytes
	list              // a count of 32 bits or compact, and so many elements
	group             // fields, and in flexible versions tagged fields
)

// field is one row's field, or the whole of a request as a group.
type field struct {
	name     string
	kind     kind
	size     int    // bytes on the wire, of a fixed field
	memory   int    // bytes in memory: of a list's element, of a group
	element  *field // of a list
	fields   []field
	tagged   []field // by tag; fields of a group that come in its tags
	from, to int16   // versions that have the field
	nullFrom int16   // first version in which it may be null
	tag      int     // -1 for a field outside tags
}

// never is a version that no request reaches.
const never = math.MaxInt16

// fixedSizes are the bytes of each type of fixed size.
var fixedSizes = map[string]int{
	"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16,
}

// schemas holds the parsed rows by API key, nil for an API without one.
var schemas = parseSchemas()

func parseSchemas() (byKey [kmsg.MaxKey + 1]*field) {
	for _, row := range requestSchemas {
		p := schemaParser{rest: row.fields, row: row.key.Name()}
		request := reflect.TypeOf(kmsg.RequestForKey(row.key.Int16())).Elem()
		f := field{name: row.key.Name(), kind: group, nullFrom: never, memory: int(request.Size())}
		p.group(&f, request)
		p.space()
		p.need(p.rest == "", "the end")
		byKey[row.key] = &f
	}
	return byKey
}

// schemaParser reads a row. The rows are part of the program, so that a mistake in one panics, at
// the start of the program.
type schemaParser struct {
	rest string
	row  string
}

func (p *schemaParser) need(ok bool, what string) {
	if !ok {
		panic(fmt.Sprintf("kproto: schema of %s: want %s before %q", p.row, what, p.rest))
	}
}

func (p *schemaParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// eat takes a token if it is next.
func (p *schemaParser) eat(token string) bool {
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
	}
	return ok
}

// word takes letters and digits.
func (p *schemaParser) word() string {
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if n < 0 {
		n = len(p.rest)
	}
	p.need(n > 0, "a word")
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

func (p *schemaParser) number() int16 {
	n, err := strconv.ParseInt(p.word(), 10, 16)
	p.need(err == nil, "a number")
	return int16(n)
}

// group reads fields up to a closing bracket or the end; in is their struct in kmsg.
func (p *schemaParser) group(g *field, in reflect.Type) {
	for {
		f := p.field(in)
		if f.tag < 0 {
			g.fields = append(g.fields, f)
		} else {
			p.need(f.tag == len(g.tagged), "tags in order")
			g.tagged = append(g.tagged, f)
		}
		if !p.eat(";") {
			return
		}
	}
}

func (p *schemaParser) field(in reflect.Type) field {
	f := field{tag: -1, to: never, nullFrom: never}
	p.space()
	if p.eat("#") {
		f.tag = int(p.number())
		p.space()
	}
	f.name = p.word()
	member, ok := in.FieldByName(f.name)
	p.need(ok, "a field of "+in.Name())
	p.space()
	p.typed(&f, member.Type)
	if p.eat("?") {
		f.nullFrom = 0
		if p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '9' {
			f.nullFrom = p.number()
			p.need(p.eat("+"), "+")
		}
	}
	if p.eat(" ") {
		p.versions(&f)
	}
	return f
}

func (p *schemaParser) versions(f *field) {
	f.from = p.number()
	if p.eat("-") {
		f.to = p.number()
		return
	}
	p.need(p.eat("+"), "+ or -")
}

// typed reads the type into f; in is the type in kmsg, whose size counts in memory.
func (p *schemaParser) typed(f *field, in reflect.Type) {
	switch {
	case p.eat("[]"):
		f.kind, f.memory, f.element = list, int(in.Elem().Size()), &field{name: f.name, nullFrom: never}
		p.plain(f.element)
	case p.eat("["):
		f.kind, f.memory = list, int(in.Elem().Size())
		f.element = &field{name: f.name, kind: group, nullFrom: never}
		p.group(f.element, in.Elem())
		p.closed("]")
	case p.eat("{"):
		if in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		f.kind, f.memory = group, int(in.Size())
		p.group(f, in)
		p.closed("}")
	default:
		p.plain(f)
	}
}

func (p *schemaParser) closed(bracket string) {
	p.space()
	p.need(p.eat(bracket), bracket)
}

func (p *schemaParser) plain(f *field) {
	switch name := p.word(); name {
	case "string":
		f.kind = text
	case "bytes":
		f.kind = blob
	default:
		size, ok := fixedSizes[name]
		p.need(ok, "a type, not "+name)
		f.kind, f.size = fixed, size
	}
}
