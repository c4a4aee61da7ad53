package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

const description = `sluice is a log broker that speaks the Kafka protocol.

Any Kafka client works with it: kcat, librdkafka, franz-go, sarama, kafka-go, the Java client. Acknowledged records
survive a kill and a power cut, and can be read again from any offset or timestamp.

Start here:

  sluice serve                                  a broker on 127.0.0.1:9092, its data in ./sluice-data
  sluice topic create greetings -p 3            a topic with three partitions
  echo "hello" | sluice produce greetings       one record a line
  sluice consume greetings --from beginning -e  print them all, then exit

The commands that are Kafka clients find the broker through --bootstrap-server or SLUICE_BOOTSTRAP_SERVER.`

// rootCmd is the command line: one line a command.
type rootCmd struct {
	Serve    serveCmd    `cmd:"" help:"Run a broker."`
	Topic    topicCmd    `cmd:"" help:"Create, list, describe, alter and delete topics."`
	Group    groupCmd    `cmd:"" help:"List, describe, reset and delete consumer groups."`
	Throttle throttleCmd `cmd:"" help:"Limit how fast records are dispatched to consumers, and see the limits."`
	Quota    quotaCmd    `cmd:"" help:"Limit the clients of a user or a client id: Kafka's client quotas."`
	Produce  produceCmd  `cmd:"" help:"Write records to a topic, from lines or whole files."`
	Consume  consumeCmd  `cmd:"" help:"Read records of a topic from an offset, a time, its beginning or its end, or as a member of a group."`
	Log      logCmd      `cmd:"" help:"Look at the files of a log without a broker: check, repair and print them, take over those of Apache Kafka."`
	Version  versionCmd  `cmd:"" help:"Print the version of this binary."`
}

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// streams are the three files of a command, so that tests can stand in for them.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	os.Exit(run(signalContext(), os.Args[1:], &streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// signalContext ends with the first SIGINT or SIGTERM. A command then finishes what it has in hand; the second signal
// finds the default action restored and ends the process at once.
func signalContext() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// helpShown carries the exit code out of kong, which prints help in the middle of parsing and then wants to exit.
type helpShown int

// run parses args, runs the command they name and returns the exit code of the process.
func run(ctx context.Context, args []string, s *streams) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case helpShown:
			code = int(r)
		default:
			panic(r)
		}
	}()
	parser := kong.Must(&rootCmd{},
		kong.Name("sluice"),
		kong.Description(description),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(helpShown(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.WithHyphenPrefixedParameters(true), // --from -5
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	command, err := parser.Parse(withHelp(args))
	if err != nil {
		return report(s.err, usageError{err}, helpFor(err))
	}
	return report(s.err, command.Run(), "sluice "+commandPath(command)+" --help")
}

// withHelp says --help where people ask for help in other words: "sluice help topic create", and "sluice" alone.
func withHelp(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	}
	return args
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// ExitCode makes the process exit with 2.
func (usageError) ExitCode() int { return exitUsage }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError that reads like fmt.Errorf's.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// report prints err as a sentence, names the help page when the command line was at fault, and returns the exit code.
func report(w io.Writer, err error, help string) int {
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if coder, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		code = coder.ExitCode()
	}
	if message := err.Error(); message != "" {
		fmt.Fprintln(w, "sluice: "+message)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintln(w, "See: "+help)
	}
	return code
}

// helpFor names the help page of the command that a parse error happened in.
func helpFor(err error) string {
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
		if path := commandPath(parse.Context); path != "" {
			return "sluice " + path + " --help"
		}
	}
	return "sluice --help"
}

// commandPath is the words that choose the command, without its arguments: "topic create".
func commandPath(c *kong.Context) string {
	var words []string
	for _, step := range c.Path {
		if step.Command != nil {
			words = append(words, step.Command.Name)
		}
	}
	return strings.Join(words, " ")
}
