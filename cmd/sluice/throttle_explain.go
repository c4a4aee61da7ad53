package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

type throttleExplainCmd struct {
	adminFlags `embed:""`
	outputFlag `embed:""`

	Topic     string `arg:"" help:"Name of the topic."`
	Partition int32  `short:"p" default:"0" placeholder:"N" help:"The partition (default: ${default})."`
	Group     string `short:"g" placeholder:"GROUP" help:"Only this group, or what the table shows in the place of one; otherwise all that have drawn on a limit of their own lately."`
}

// Validate refuses what is no topic or partition.
func (c *throttleExplainCmd) Validate() error {
	if c.Topic == "" {
		return errors.New("the topic's name is empty")
	}
	if c.Partition < 0 {
		return errors.New("--partition must be at least 0")
	}
	return nil
}

// explained is the answer of the admin port, and what is printed with -o json. Times are seconds.
type explained struct {
	Topic     string           `json:"topic"`
	Partition int32            `json:"partition"`
	Counting  string           `json:"counting"`
	Levels    []explainedLevel `json:"levels"`
	Waits     []explainedWait  `json:"waits"`
}

type explainedLevel struct {
	Level        string             `json:"level"`
	Subscription string             `json:"subscription,omitempty"`
	Source       string             `json:"source"`
	Namespace    string             `json:"namespace,omitempty"`
	CaughtUp     bool               `json:"caught_up,omitempty"`
	Period       float64            `json:"period_seconds"`
	Counters     []explainedCounter `json:"counters"`
}

type explainedCounter struct {
	Unit       string  `json:"unit"`
	Limit      int64   `json:"limit"`
	Used       int64   `json:"used"`
	Left       int64   `json:"left"`
	Owed       int64   `json:"owed"`
	NextWindow float64 `json:"next_window_seconds"`
	OpensIn    float64 `json:"opens_in_seconds"`
	Waiters    int     `json:"waiters"`
	Waiting    float64 `json:"waiting_seconds"`
	Sharing    int     `json:"sharing"`
}

type explainedWait struct {
	Group   string  `json:"group"`
	Cause   string  `json:"cause"`
	Seconds float64 `json:"seconds"`
}

// Run asks the broker and prints what limits a partition's consumers.
func (c *throttleExplainCmd) Run(ctx context.Context, s *streams) error {
	path := fmt.Sprintf("/v1/throttle/%s/%d?group=%s", url.PathEscape(c.Topic), c.Partition, url.QueryEscape(c.Group))
	var e explained
	if err := c.get(ctx, path, &e); err != nil {
		return fmt.Errorf("partition %d of topic %s: %w", c.Partition, c.Topic, err)
	}
	return c.print(s.out, e, e.table)
}

func (e *explained) table(w io.Writer) {
	fmt.Fprintf(w, "topic %s, partition %d; messages are counted: %s\n\n", e.Topic, e.Partition, e.Counting)
	row(w, "LEVEL", "FOR", "SET BY", "LIMIT", "USED", "LEFT", "OWED", "NEXT PERIOD", "OPENS", "WAITING", "SHARING")
	for _, l := range e.Levels {
		if len(l.Counters) == 0 {
			row(w, l.Level, orDash(l.Subscription), l.source(), "none", "-", "-", "-", "-", "-", "-", "-")
		}
		for _, n := range l.Counters {
			row(w, l.Level, orDash(l.Subscription), l.source(), fmt.Sprintf("%d %s/%v", n.Limit, n.Unit, seconds(l.Period)),
				n.Used, n.Left, n.Owed, n.next(), n.opens(), n.waiting(), n.Sharing)
		}
	}
	for _, l := range e.Levels {
		if l.CaughtUp {
			fmt.Fprintf(w, "\n%s has no backlog, and such are not throttled\n", printable(l.Subscription))
		}
	}
	if len(e.Waits) == 0 {
		return
	}
	fmt.Fprintln(w)
	row(w, "WAITED", "FOR", "SECONDS")
	for _, x := range e.Waits {
		row(w, orDash(x.Group), x.Cause, fmt.Sprintf("%.3f", x.Seconds))
	}
}

func (l *explainedLevel) source() string {
	if l.Namespace != "" {
		return "namespace " + l.Namespace
	}
	if l.Source == "none" || l.Source == "broker" && len(l.Counters) == 0 { // the broker always says something
		return "-"
	}
	return l.Source
}

func (c *explainedCounter) next() string {
	if c.NextWindow == 0 {
		return "-" // not used yet
	}
	return "in " + fmt.Sprint(seconds(c.NextWindow))
}

func (c *explainedCounter) opens() string {
	if c.OpensIn == 0 {
		return "open"
	}
	return "in " + fmt.Sprint(seconds(c.OpensIn))
}

func (c *explainedCounter) waiting() string {
	if c.Waiters == 0 {
		return "-"
	}
	return fmt.Sprintf("%d since %v", c.Waiters, seconds(c.Waiting))
}

// seconds is a time in seconds, to the millisecond.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
