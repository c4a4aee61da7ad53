// Command sluice is the broker and its command line in one binary.
//
// Every subcommand is one struct whose tags are its flags and whose Run method is its work; the root struct in main.go
// lists them, one line each. The client commands (topic, group, quota, produce, consume) speak the Kafka protocol and work against
// any Kafka broker; they share the connection flags and the error sentences of client.go.
//
// Results go to standard output; progress, warnings and errors go to standard error. The exit code is 0 for success,
// 1 when the work failed, 2 when the command line was wrong; an error with an ExitCode method chooses its own.
package main
