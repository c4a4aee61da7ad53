package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordFormat prints records by a template in kcat's language, given as %t %p %o %T %k %K %s %S %h and the escapes
// \n \t \r \0 \\ \xHH; %% is a percent sign.
type recordFormat struct {
	pieces []appendFunc
}

// appendFunc appends its part of a record's text to b.
type appendFunc func(b []byte, r *kgo.Record, null string) []byte

// verbs are the fields of a record by the letter that prints them.
var verbs = map[byte]appendFunc{
	't': func(b []byte, r *kgo.Record, _ string) []byte { return append(b, r.Topic...) },
	'p': func(b []byte, r *kgo.Record, _ string) []byte { return strconv.AppendInt(b, int64(r.Partition), 10) },
	'o': func(b []byte, r *kgo.Record, _ string) []byte { return strconv.AppendInt(b, r.Offset, 10) },
	'T': func(b []byte, r *kgo.Record, _ string) []byte {
		return strconv.AppendInt(b, r.Timestamp.UnixMilli(), 10)
	},
	'k': func(b []byte, r *kgo.Record, null string) []byte { return appendBytes(b, r.Key, null) },
	's': func(b []byte, r *kgo.Record, null string) []byte { return appendBytes(b, r.Value, null) },
	'K': func(b []byte, r *kgo.Record, _ string) []byte { return appendLength(b, r.Key) },
	'S': func(b []byte, r *kgo.Record, _ string) []byte { return appendLength(b, r.Value) },
	'h': appendHeaders,
}

// escapes are the characters that a backslash and a letter stand for.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '0': 0, '\\': '\\'}

// UnmarshalText compiles a template.
func (f *recordFormat) UnmarshalText(text []byte) error {
	var pieces []appendFunc
	for s := string(text); s != ""; {
		piece, size, err := parsePiece(s)
		if err != nil {
			return err
		}
		pieces = append(pieces, piece)
		s = s[size:]
	}
	f.pieces = pieces
	return nil
}

// parsePiece compiles the verb, the escape or the literal text at the start of s, and returns how long that was.
func parsePiece(s string) (appendFunc, int, error) {
	switch s[0] {
	case '%':
		return parseVerb(s)
	case '\\':
		return parseEscape(s)
	}
	size := strings.IndexAny(s, `%\`)
	if size < 0 {
		size = len(s)
	}
	return literal(s[:size]), size, nil
}

func parseVerb(s string) (appendFunc, int, error) {
	if len(s) == 1 {
		return nil, 0, fmt.Errorf("the format ends in a single %%; write %%%% for a percent sign")
	}
	if s[1] == '%' {
		return literal("%"), 2, nil
	}
	verb, ok := verbs[s[1]]
	if !ok {
		return nil, 0, fmt.Errorf("the format has %%%c, which is none of %%t %%p %%o %%T %%k %%K %%s %%S %%h %%%%", s[1])
	}
	return verb, 2, nil
}

func parseEscape(s string) (appendFunc, int, error) {
	if len(s) >= 4 && s[1] == 'x' {
		code, err := strconv.ParseUint(s[2:4], 16, 8)
		if err != nil {
			return nil, 0, fmt.Errorf(`the format has \x%s, which is not two hexadecimal digits`, s[2:4])
		}
		return literal(string([]byte{byte(code)})), 4, nil
	}
	if len(s) >= 2 {
		if c, ok := escapes[s[1]]; ok {
			return literal(string([]byte{c})), 2, nil
		}
	}
	return nil, 0, fmt.Errorf(`the format has %q, which is none of \n \t \r \0 \\ \xHH`, s[:min(len(s), 2)])
}

func literal(text string) appendFunc {
	return func(b []byte, _ *kgo.Record, _ string) []byte { return append(b, text...) }
}

// append appends the text of a record; null stands for null keys, values and header values.
func (f *recordFormat) append(b []byte, r *kgo.Record, null string) []byte {
	for _, piece := range f.pieces {
		b = piece(b, r, null)
	}
	return b
}

func appendBytes(b, field []byte, null string) []byte {
	if field == nil {
		return append(b, null...)
	}
	return append(b, field...)
}

// appendLength appends the length of a field in bytes, -1 for null.
func appendLength(b, field []byte) []byte {
	if field == nil {
		return append(b, "-1"...)
	}
	return strconv.AppendInt(b, int64(len(field)), 10)
}

// appendHeaders appends key=value pairs with commas between them.
func appendHeaders(b []byte, r *kgo.Record, null string) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, h.Key...)
		b = append(b, '=')
		b = appendBytes(b, h.Value, null)
	}
	return b
}

// jsonRecord is one line of `consume -o json`. An encoding of "base64" stands beside a key or value that is not UTF-8;
// null is a null key or value. TimestampMillis counts from 1970 in UTC.
type jsonRecord struct {
	Topic           string       `json:"topic"`
	Partition       int32        `json:"partition"`
	Offset          int64        `json:"offset"`
	TimestampMillis int64        `json:"timestamp"`
	Key             *string      `json:"key"`
	KeyEncoding     string       `json:"key_encoding,omitempty"`
	Value           *string      `json:"value"`
	ValueEncoding   string       `json:"value_encoding,omitempty"`
	Headers         []jsonHeader `json:"headers"`
}

type jsonHeader struct {
	Key           string  `json:"key"`
	Value         *string `json:"value"`
	ValueEncoding string  `json:"value_encoding,omitempty"`
}

// appendJSON appends a record as one line of JSON.
func appendJSON(b []byte, r *kgo.Record) ([]byte, error) {
	line := jsonRecord{
		Topic:           r.Topic,
		Partition:       r.Partition,
		Offset:          r.Offset,
		TimestampMillis: r.Timestamp.UnixMilli(),
		Headers:         []jsonHeader{},
	}
	line.Key, line.KeyEncoding = jsonText(r.Key)
	line.Value, line.ValueEncoding = jsonText(r.Value)
	for _, h := range r.Headers {
		value, encoding := jsonText(h.Value)
		line.Headers = append(line.Headers, jsonHeader{h.Key, value, encoding})
	}
	out := bytes.NewBuffer(b)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return b, fmt.Errorf("print record %d of partition %d: %w", r.Offset, r.Partition, err)
	}
	return out.Bytes(), nil
}

// jsonText is a field as a JSON string and its encoding: none for UTF-8, base64 for other bytes.
func jsonText(field []byte) (text *string, encoding string) {
	if field == nil {
		return nil, ""
	}
	s := string(field)
	if utf8.ValidString(s) {
		return &s, ""
	}
	s = base64.StdEncoding.EncodeToString(field)
	return &s, "base64"
}
