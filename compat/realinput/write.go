package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// writer is a program that produces.
type writer struct {
	name string
	// files starts a program that writes each file as one record, idempotently, with acks=all.
	files func(ctx context.Context, address, topic, codec string, in *input) (*exec.Cmd, error)
	// lines is a program that writes each line of a file as one record to a partition.
	lines func(ctx context.Context, address, topic, codec string, partition int, path string) *exec.Cmd
	// asLines is the sum that a file has when its lines are joined again.
	asLines func(in *input, f file) (sum, error)
	readers []string // clients that read what this one wrote: none of them is the same library
}

// writeTimeout is how long a writer retries, in seconds; it outlasts every restart of the broker.
const writeTimeout = 120

func (t *tester) writers() []writer {
	return []writer{
		{"kcat", kcatFiles, kcatLines, (*input).withoutEmptyLines, []string{"franz-go", "sarama", "kafka-go"}},
		{"sluice", t.sluiceFiles, t.sluiceLines, asItIs, []string{"kcat", "sarama", "kafka-go"}},
	}
}

func asItIs(_ *input, f file) (sum, error) { return f.sum, nil }

func (t *tester) sluiceFiles(ctx context.Context, address, topic, codec string, in *input) (*exec.Cmd, error) {
	return start(exec.CommandContext(ctx, t.options.binary, "produce", topic, "-b", address, "--codec", codec,
		"--file-per-record", in.root, "--max-bytes", strconv.Itoa(largestRecord), "--timeout", fmt.Sprint(writeTimeout, "s")))
}

func (t *tester) sluiceLines(ctx context.Context, address, topic, codec string, partition int, path string) *exec.Cmd {
	return exec.CommandContext(ctx, t.options.binary, "produce", topic, "-b", address, "--codec", codec,
		"--file", path, "--partition", strconv.Itoa(partition), "--max-bytes", strconv.Itoa(largestRecord))
}

// kcatFiles feeds kcat key, delimiter, content, delimiter for each file. The delimiters are random, so that no file has
// them.
func kcatFiles(ctx context.Context, address, topic, codec string, in *input) (*exec.Cmd, error) {
	key, end := fmt.Sprintf("<key-%x>", rand.Uint64()), fmt.Sprintf("<end-%x>", rand.Uint64())
	kcat := exec.CommandContext(ctx, "kcat", "-P", "-E", "-b", address, "-t", topic, "-z", codec, "-K", key, "-D", end,
		"-X", "enable.idempotence=true", "-X", fmt.Sprint("message.timeout.ms=", writeTimeout*1000),
		"-X", "reconnect.backoff.max.ms=200", "-X", fmt.Sprint("message.max.bytes=", largestRecord))
	stdin, err := kcat.StdinPipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer stdin.Close()
		_ = feed(stdin, in, key, end) // kcat's exit code says that it did not take all
	}()
	return start(kcat)
}

func feed(w io.Writer, in *input, key, end string) error {
	out := bufio.NewWriterSize(w, 1<<20)
	for _, f := range in.files {
		content, err := os.ReadFile(in.path(f))
		if err != nil {
			return err
		}
		fmt.Fprint(out, f.key, key)
		out.Write(content)
		fmt.Fprint(out, end)
	}
	return out.Flush()
}

func kcatLines(ctx context.Context, address, topic, codec string, partition int, path string) *exec.Cmd {
	return exec.CommandContext(ctx, "kcat", "-P", "-b", address, "-t", topic, "-z", codec, "-p", strconv.Itoa(partition),
		"-X", fmt.Sprint("message.max.bytes=", largestRecord), "-l", path)
}

// start keeps what the program says: while the broker is killed that is a lot, and of interest only if it fails.
func start(command *exec.Cmd) (*exec.Cmd, error) {
	command.Stderr = new(bytes.Buffer)
	return command, command.Start()
}

// wait waits for a started program, and puts what it said into the error.
func wait(command *exec.Cmd) error {
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(command.Path), err, command.Stderr)
	}
	return nil
}
