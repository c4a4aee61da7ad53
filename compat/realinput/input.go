package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// sum is a SHA-256.
type sum [sha256.Size]byte

// file is one file of the input.
type file struct {
	key  string // its path below the root, with slashes
	size int64
	sum  sum
}

// input is the tree that is written.
type input struct {
	root    string
	files   []file // in lexical order
	bytes   int64
	largest []file // the largest text files, the largest first
	lines   int
}

// largestRecord is the size up to which a file is one record; there are no larger ones in the Go distribution.
const largestRecord = 16 << 20

// readInput walks a tree and sums its regular files up.
func readInput(root string, largest int) (*input, error) {
	in := &input{root: root}
	var texts []file
	lines := map[string]int{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		key, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f := file{filepath.ToSlash(key), int64(len(content)), sha256.Sum256(content)}
		in.files = append(in.files, f)
		in.bytes += f.size
		if isText(content) {
			texts = append(texts, f)
			lines[f.key] = bytes.Count(content, []byte("\n"))
		}
		return nil
	})
	slices.SortFunc(texts, func(a, b file) int { return cmp.Compare(b.size, a.size) })
	in.largest = texts[:min(largest, len(texts))]
	for _, f := range in.largest {
		in.lines += lines[f.key]
	}
	return in, err
}

// isText tells whether the lines of a file, each with a newline behind it, are the file.
func isText(content []byte) bool {
	return bytes.HasSuffix(content, []byte("\n")) && !bytes.Contains(content, []byte{0})
}

// path is where a file is.
func (in *input) path(f file) string { return filepath.Join(in.root, filepath.FromSlash(f.key)) }

// withoutEmptyLines is the sum of a file as kcat writes it: it leaves empty lines out.
func (in *input) withoutEmptyLines(f file) (sum, error) {
	content, err := os.ReadFile(in.path(f))
	if err != nil {
		return sum{}, err
	}
	kept := sha256.New()
	for line := range bytes.Lines(content) {
		if string(line) != "\n" {
			kept.Write(line)
		}
	}
	return sum(kept.Sum(nil)), nil
}
