// Package members starts the members of a consumer group that the runners watch, with each client library. Those of Go libraries are the runner itself: its main calls Run when its first argument is "member".
package members

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	franzgo "sluice/compat/franz-go"
	kafkago "sluice/compat/kafka-go"
	"sluice/compat/member"
	"sluice/compat/sarama"
)

// The group protocols, as members are told.
const (
	classicProtocol  = "classic"
	consumerProtocol = "consumer"
)

// Client is how the members of one client are started.
type Client struct {
	Name string
	Argv func(address, group, topic string) []string
	// Careless: it may commit what it has not printed yet, so it is killed only when it has printed everything.
	Careless bool
}

// Named finds a client.
func Named(name string) (Client, error) {
	for _, c := range clients() {
		if c.Name == name {
			return c, nil
		}
	}
	return Client{}, fmt.Errorf("there is no client %q", name)
}

func clients() []Client {
	return []Client{
		{Name: "franz-go", Argv: library("franz-go", classicProtocol)},
		{Name: "franz-go-consumer", Argv: library("franz-go", consumerProtocol)},
		{Name: "sarama", Argv: library("sarama", classicProtocol)},
		{Name: "kafka-go", Argv: library("kafka-go", classicProtocol)},
		{Name: "kcat", Argv: kcat, Careless: true},
		{Name: "confluent-kafka-python", Argv: program(classicProtocol, "/usr/bin/python3", "confluent-kafka-python/member.py")},
		{Name: "kafkajs", Argv: program(classicProtocol, "node", "kafkajs/member.js")},
		{Name: "java", Argv: java(classicProtocol)},
		{Name: "java-consumer", Argv: java(consumerProtocol)},
	}
}

// library is a member of a Go library: this program.
func library(name, protocol string) func(address, group, topic string) []string {
	return program(protocol, os.Args[0], "member", name)
}

// program is a command that takes ADDRESS GROUP TOPIC PROTOCOL at its end.
func program(protocol string, command ...string) func(address, group, topic string) []string {
	return func(address, group, topic string) []string {
		return append(append([]string(nil), command...), address, group, topic, protocol)
	}
}

// java is kafka-clients, with little memory and a quick start.
func java(protocol string) func(address, group, topic string) []string {
	return program(protocol, "java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "java/classes:java/lib/*", "Member")
}

// kcat has no commit of its own, so the library commits in the background, what was handed out.
func kcat(address, group, topic string) []string {
	return []string{
		"kcat", "-b", address, "-q", "-u", "-f", `read %p %o %s\n`,
		"-X", "auto.offset.reset=earliest", "-X", "auto.commit.interval.ms=100",
		"-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500",
		"-G", group, topic,
	}
}

// libraries are the members that a runner can be.
var libraries = map[string]member.Library{
	"franz-go": franzgo.Member,
	"kafka-go": kafkago.Member,
	"sarama":   sarama.Member,
}

// Run is a member until SIGTERM: LIBRARY ADDRESS GROUP TOPIC PROTOCOL.
func Run(args []string) error {
	if len(args) != 5 || libraries[args[0]] == nil {
		return fmt.Errorf("bad arguments %q", args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return libraries[args[0]](ctx, &member.Job{
		Address: args[1], Group: args[2], Topic: args[3], Consumer: args[4] == consumerProtocol, Out: os.Stdout,
	})
}
