package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// kind is the type of a setting; the numbers are those of DescribeConfigs (KIP-569).
type kind int8

const (
	kindBool     kind = 1
	kindString   kind = 2
	kindInt      kind = 3
	kindShort    kind = 4
	kindLong     kind = 5
	kindDouble   kind = 6
	kindList     kind = 7
	kindPassword kind = 9
)

// String is the type's name in docs/config.md.
func (k kind) String() string {
	return map[kind]string{
		kindBool: "boolean", kindString: "string", kindInt: "int", kindShort: "short", kindLong: "long",
		kindDouble: "double", kindList: "list", kindPassword: "password",
	}[k]
}

// noun says what a value of the type is, to stand after "it must be".
func (k kind) noun() string {
	switch k {
	case kindBool:
		return "true or false"
	case kindInt, kindShort, kindLong:
		return "a whole number"
	case kindDouble:
		return "a number"
	case kindList:
		return "a list separated by commas"
	}
	return "text"
}

// bits is the size of a whole number of the type.
func (k kind) bits() int {
	switch k {
	case kindShort:
		return 16
	case kindInt:
		return 32
	}
	return 64
}

// value is a parsed value; the field of its kind holds it.
type value struct {
	kind   kind
	flag   bool
	whole  int64
	number float64
	list   []string
	text   string
}

var (
	errForm  = errors.New("not of the setting's type")
	errRange = errors.New("too large for the setting's type")
)

// parse reads a raw value as Kafka does: blanks around it do not count, booleans may be written in capitals, a list is
// split at commas and an entry that is repeated counts once.
func (k kind) parse(raw string) (value, error) {
	raw = strings.TrimSpace(raw)
	v := value{kind: k}
	switch k {
	case kindBool:
		v.flag = strings.EqualFold(raw, "true")
		if !v.flag && !strings.EqualFold(raw, "false") {
			return v, errForm
		}
	case kindShort, kindInt, kindLong:
		n, err := strconv.ParseInt(raw, 10, k.bits())
		if err != nil {
			return v, numberError(err)
		}
		v.whole = n
	case kindDouble:
		f, err := strconv.ParseFloat(raw, 64)
		if err != nil {
			return v, numberError(err)
		}
		v.number = f
	case kindList:
		v.list = splitList(raw)
	default:
		v.text = raw
	}
	return v, nil
}

func numberError(err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return errRange
	}
	return errForm
}

// splitList keeps empty entries ("a,,b"), so that the limit of the setting can refuse them.
func splitList(raw string) []string {
	if raw == "" {
		return nil
	}
	var list []string
	seen := make(map[string]bool)
	for entry := range strings.SplitSeq(raw, ",") {
		if entry = strings.TrimSpace(entry); !seen[entry] {
			seen[entry] = true
			list = append(list, entry)
		}
	}
	return list
}

// String is the value as DescribeConfigs shows it, and as it may be set again.
func (v value) String() string {
	switch v.kind {
	case kindBool:
		return strconv.FormatBool(v.flag)
	case kindShort, kindInt, kindLong:
		return strconv.FormatInt(v.whole, 10)
	case kindDouble:
		return formatDouble(v.number)
	case kindList:
		return strings.Join(v.list, ",")
	}
	return v.text
}

// formatDouble writes 1 as 1.0, as Java does, so that the type can be seen.
func formatDouble(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if math.Trunc(f) == f && !strings.ContainsAny(s, "eE.") {
		s += ".0"
	}
	return s
}

// times multiplies a whole number, staying at the largest instead of wrapping around: that means "never" for every setting
// with a unit. None of them goes far below zero.
func (v value) times(unit int64) value {
	if v.whole > math.MaxInt64/unit {
		v.whole = math.MaxInt64
	} else {
		v.whole *= unit
	}
	return v
}
