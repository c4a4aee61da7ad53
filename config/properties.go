package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/magiconair/properties"
)

// maxPropertiesBytes bounds a settings file, in bytes; Kafka's own, with all its comments, has 7 KiB.
const maxPropertiesBytes = 1 << 20

// ParseProperties parses the text of a file in server.properties format into a flat map; of a repeated key the last one
// counts. The text is UTF-8, and ${...} has no meaning: what stands in the file is the value.
func ParseProperties(text []byte) (map[string]string, error) {
	if len(text) > maxPropertiesBytes {
		return nil, fmt.Errorf("the settings file has %d bytes; at most %d are read", len(text), maxPropertiesBytes)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the settings file is not UTF-8 text")
	}
	// The parser takes the two characters of a Windows line end for two line ends, which breaks continued lines.
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text))
	if n := lineWithoutKey(lines); n > 0 {
		return nil, fmt.Errorf("line %d of the settings file has a value but no key", n)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes([]byte(lines))
	if err != nil {
		return nil, fmt.Errorf("parse the settings file: %w", err)
	}
	return p.Map(), nil
}

// lineWithoutKey is the number of the first line that begins with = or :, or 0. The parser's own error for it would leave
// its goroutine behind.
func lineWithoutKey(text string) int {
	continued := false
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		start := strings.TrimLeft(line, " \t\f")
		if !continued && start != "" && strings.ContainsRune("=:", rune(start[0])) {
			return number
		}
		comment := !continued && start != "" && strings.ContainsRune("#!", rune(start[0]))
		continued = !comment && endsInEscape(line)
	}
	return 0
}

// endsInEscape tells whether a line ends in an odd number of backslashes, which continues it.
func endsInEscape(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}
