package config

import (
	"maps"
	"strings"
	"testing"
)

func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]string
	}{
		{"empty", "", nil},
		{"comments", "# a=1\n ! b=2\n\nc=3 # not a comment\n", map[string]string{"c": "3 # not a comment"}},
		{"comment does not continue", "# a \\\nb=1", map[string]string{"b": "1"}},
		{"delimiters", "a=1\nb: 2\nc 3\nd\ne = = 5", map[string]string{"a": "1", "b": "2", "c": "3", "d": "", "e": "= 5"}},
		{"continued", "a=1,\\\n   2,\\\n\t3\nb=4", map[string]string{"a": "1,2,3", "b": "4"}},
		{"continued with =", "a=1\\\n=2", map[string]string{"a": "1=2"}},
		{"escaped backslash", "a=1\\\\\nb=2", map[string]string{"a": `1\`, "b": "2"}},
		{"windows", "a=1,\\\r\n  2\r\nb=3\r\n", map[string]string{"a": "1,2", "b": "3"}},
		{"byte order mark", "\ufeffa=1", map[string]string{"a": "1"}},
		{"unicode", "a=\\u00e9é", map[string]string{"a": "éé"}},
		{"escapes", `a\ b=c\td`, map[string]string{"a b": "c\td"}},
		{"no expansion", "a=1\nb=${a}\nc=${file:/etc/passwd:x}\nd=${", map[string]string{"a": "1", "b": "${a}", "c": "${file:/etc/passwd:x}", "d": "${"}},
		{"last counts", "a=1\na=2", map[string]string{"a": "2"}},
	} {
		got, err := ParseProperties([]byte(c.text))
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestParsePropertiesErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a=1\n=2", "line 2 of the settings file has a value but no key"},
		{" : 2", "line 1 of"},
		{"# x \\\n=1", "line 2 of"},
		{"a=\\uZZZZ", "parse the settings file: "},
		{"a=\\", "parse the settings file: "},
		{"a=\xff", "not UTF-8"},
		{strings.Repeat("#", maxPropertiesBytes+1), "at most 1048576 are read"},
	} {
		if got, err := ParseProperties([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %q, %v", c.text, got, err)
		}
	}
}

func FuzzParseProperties(f *testing.F) {
	for _, s := range []string{"a=1\nb: \\\n 2\n", "=", "\\\n=1", "# c\\\n=", "a=${b}\r\n\\u00e9 x", "\\u", "a\\\n=b\\"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseProperties(text)
		if (err == nil) != (m != nil) {
			t.Fatalf("%q, %v", m, err)
		}
		size := 0
		for k, v := range m {
			size += len(k) + len(v)
			if k == "" {
				t.Fatal("an empty key")
			}
		}
		if size > len(text) {
			t.Fatalf("%d bytes of text gave %d bytes of settings", len(text), size)
		}
	})
}

// A value that is accepted is stored, described and accepted again; one that is refused gives a short message.
func FuzzValidate(f *testing.F) {
	for _, r := range settings.declared(ScopeTopic) {
		f.Add(r.name, r.def)
	}
	f.Add("cleanup.policy", " compact ,, delete")
	f.Add("no.such.key", "\xff")
	f.Fuzz(func(t *testing.T, key, value string) {
		for _, scope := range allScopes {
			if err := Validate(scope, key, value); err != nil {
				if len(err.Error()) > 1024 {
					t.Fatalf("a message of %d bytes", len(err.Error()))
				}
				continue
			}
			r := settings.find(scope, key)
			if r == nil {
				continue
			}
			v, _ := r.check(value)
			again, err := r.check(v.String())
			if err != nil || again.String() != v.String() {
				t.Fatalf("%s: %q reads back as %q, then %q, %v", key, value, v.String(), again.String(), err)
			}
		}
	})
}
