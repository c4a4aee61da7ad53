package vfs

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// play runs commands that are separated by semicolons. Files stay open, by the name that
// they were opened with.
func play(t testing.TB, m *Mem, script string) {
	t.Helper()
	files := map[string]File{}
	file := func(name string) File {
		if files[name] == nil {
			f, err := m.OpenFile(name, os.O_RDWR, 0)
			check(t, err)
			files[name] = f
		}
		return files[name]
	}
	for command := range strings.SplitSeq(script, ";") {
		arg := strings.Fields(command)
		switch arg[0] {
		case "create":
			f, err := m.OpenFile(arg[1], os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			check(t, err)
			files[arg[1]] = f
		case "creat":
			_, err := m.OpenFile(arg[1], os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
			check(t, err)
		case "open":
			file(arg[1])
		case "write":
			write(t, file(arg[1]), int64(number(t, arg[2])), strings.Repeat(arg[3][:1], number(t, arg[3][1:])))
		case "trunc":
			check(t, file(arg[1]).Truncate(int64(number(t, arg[2]))))
		case "sync":
			check(t, file(arg[1]).Sync())
		case "syncdir":
			check(t, m.SyncDir(arg[1]))
		case "mkdir":
			check(t, m.Mkdir(arg[1], 0o755))
		case "rename":
			check(t, m.Rename(arg[1], arg[2]))
		case "remove":
			check(t, m.Remove(arg[1]))
		default:
			t.Fatalf("unknown command %q", command)
		}
	}
}

func number(t testing.TB, s string) int {
	n, err := strconv.Atoi(s)
	check(t, err)
	return n
}

// show is the whole disk in one line: directories as "d/", files as "f=" and runs of
// bytes; a zero is "." and a sector of garbage is "?".
func show(fsys FS) string {
	var parts []string
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := fsys.ReadDir("/" + dir)
		if err != nil {
			panic(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				parts = append(parts, name+"/")
				walk(name)
				continue
			}
			data, err := ReadFile(fsys, name, 1<<30)
			if err != nil {
				panic(err)
			}
			parts = append(parts, name+"="+runs(data))
		}
	}
	walk("")
	return strings.Join(parts, " ")
}

func runs(data []byte) string {
	var text []byte
	for sector := range slices.Chunk(data, sectorSize) {
		if bytes.ContainsFunc(sector, func(r rune) bool { return r > unicode.MaxASCII }) {
			sector = bytes.Repeat([]byte("?"), len(sector))
		}
		text = append(text, bytes.ReplaceAll(sector, []byte{0}, []byte("."))...)
	}
	var s strings.Builder
	for len(text) > 0 {
		rest := bytes.TrimLeft(text, string(text[0]))
		fmt.Fprintf(&s, "%c%d", text[0], len(text)-len(rest))
		text = rest
	}
	return s.String()
}
