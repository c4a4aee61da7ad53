package main

import (
	"fmt"
	"os"
)

// The group protocols, as members are told.
const (
	classicProtocol  = "classic"
	consumerProtocol = "consumer"
)

// client is how the members of one client are started.
type client struct {
	name string
	argv func(address string) []string
	// careless: it may commit what it has not printed yet, so it is killed only when it has printed everything.
	careless bool
}

func clientNamed(name string) (client, error) {
	for _, c := range clients() {
		if c.name == name {
			return c, nil
		}
	}
	return client{}, fmt.Errorf("there is no client %q", name)
}

func clients() []client {
	return []client{
		{name: "franz-go", argv: library("franz-go", classicProtocol)},
		{name: "franz-go-consumer", argv: library("franz-go", consumerProtocol)},
		{name: "sarama", argv: library("sarama", classicProtocol)},
		{name: "kafka-go", argv: library("kafka-go", classicProtocol)},
		{name: "kcat", argv: kcat, careless: true},
		{name: "confluent-kafka-python", argv: program(classicProtocol, "/usr/bin/python3", "confluent-kafka-python/member.py")},
		{name: "kafkajs", argv: program(classicProtocol, "node", "kafkajs/member.js")},
		{name: "java", argv: java(classicProtocol)},
		{name: "java-consumer", argv: java(consumerProtocol)},
	}
}

// library is a member of a Go library: this program.
func library(name, protocol string) func(string) []string {
	return program(protocol, os.Args[0], "member", name)
}

// program is a command that takes ADDRESS GROUP TOPIC PROTOCOL at its end.
func program(protocol string, command ...string) func(string) []string {
	return func(address string) []string {
		return append(append([]string(nil), command...), address, group, topic, protocol)
	}
}

// java is kafka-clients, with little memory and a quick start.
func java(protocol string) func(string) []string {
	return program(protocol, "java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "java/classes:java/lib/*", "Member")
}

// kcat has no commit of its own, so the library commits in the background, what was handed out.
func kcat(address string) []string {
	return []string{
		"kcat", "-b", address, "-q", "-u", "-f", `read %p %o %s\n`,
		"-X", "auto.offset.reset=earliest", "-X", "auto.commit.interval.ms=100",
		"-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500",
		"-G", group, topic,
	}
}
