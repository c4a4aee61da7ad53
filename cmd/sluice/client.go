package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// dialTimeout bounds one connection attempt, so that a wrong address is reported while the user still watches.
	dialTimeout = 5 * time.Second
	// requestTimeout bounds one administrative request with its retries; it covers a broker that is restarting.
	requestTimeout = 15 * time.Second
	// metadataInterval is the least time between two looks for a topic or a broker that is not there; it is short because
	// a command waits for them, unlike a service.
	metadataInterval = 250 * time.Millisecond
)

// clientFlags are the flags of every command that connects to a broker.
type clientFlags struct {
	BootstrapServer []string `short:"b" placeholder:"HOST:PORT" env:"SLUICE_BOOTSTRAP_SERVER" default:"127.0.0.1:9092" help:"Broker to connect to; several, separated by commas, are tried in turn (default: ${default})."`
	Verbose         bool     `short:"v" help:"Log what the client does to standard error."`
}

// connect makes a client and checks that a broker answers, which turns a wrong address into one clear error.
// The caller closes the client.
func (f *clientFlags) connect(ctx context.Context, s *streams, opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(f.BootstrapServer...),
		kgo.ClientID("sluice-cli"),
		kgo.Dialer((&net.Dialer{Timeout: dialTimeout}).DialContext),
		kgo.RetryTimeout(requestTimeout),
		kgo.MetadataMinAge(metadataInterval),
	}, opts...)
	if f.Verbose {
		opts = append(opts, kgo.WithLogger(kgo.BasicLogger(s.err, kgo.LogLevelInfo, nil)))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, usageError{err}
	}
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, f.unreachable(err)
	}
	return client, nil
}

// connectAdmin is connect for the commands that only administrate. They have a client id of their own: who commits offsets for a
// group is taken for its consumer.
func (f *clientFlags) connectAdmin(ctx context.Context, s *streams) (*kadm.Client, error) {
	client, err := f.connect(ctx, s, kgo.ClientID("sluice-cli-admin"))
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(requestTimeout / time.Millisecond))
	return admin, nil
}

// unreachable says which address failed and how to get a broker there.
func (f *clientFlags) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return fmt.Errorf("no broker answers at %s: %w\nStart one with `sluice serve`, or name another with --bootstrap-server",
		strings.Join(f.BootstrapServer, ", "), err)
}

var errInterrupted = errors.New("interrupted")

// advice is what to do next about the broker errors that a user meets in daily work.
var advice = map[*kerr.Error]string{
	kerr.UnknownTopicOrPartition:   "`sluice topic list` shows the topics; `sluice topic create` makes one.",
	kerr.TopicAlreadyExists:        "With --if-not-exists that is no error.",
	kerr.MessageTooLarge:           "`sluice topic alter TOPIC --set max.message.bytes=N` raises the topic's limit.",
	kerr.GroupIDNotFound:           "`sluice group list` shows the groups.",
	kerr.NonEmptyGroup:             "Stop its members first; `sluice group describe GROUP` shows them.",
	kerr.GroupSubscribedToTopic:    "Stop its members first; `sluice group describe GROUP` shows them.",
	kerr.InconsistentGroupProtocol: "A group speaks one protocol at a time; `sluice group describe GROUP` shows which, and its members.",
	kerr.ThrottlingQuotaExceeded:   "Repeat it in a while; `sluice quota list` shows the quotas of controller_mutation_rate.",
	kerr.OffsetOutOfRange:          "`sluice topic describe TOPIC` shows the first and last offset.",
}

// explain turns the error that a broker gave about a subject ("topic orders") into a sentence and advice. detail is the
// broker's own text about it, and wins over the general description of the error code. nil stays nil.
func explain(subject string, err error, detail string) error {
	if err == nil {
		return nil
	}
	code, ok := errors.AsType[*kerr.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if detail == "" {
		detail = code.Description
	}
	text := fmt.Sprintf("%s: %s (%s)", subject, strings.TrimSuffix(detail, "."), code.Message)
	if next := advice[code]; next != "" {
		text += "\n" + next
	}
	return errors.New(text)
}
