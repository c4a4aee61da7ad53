package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
)

// adminFlags find a broker's admin port, for what Kafka's protocol has no call for.
type adminFlags struct {
	DataDir string `short:"d" default:"./sluice-data" env:"SLUICE_DATA_DIR" placeholder:"DIR" help:"Data directory of a broker on this machine; its admin socket is there (default: ${default})."`
	Admin   string `env:"SLUICE_ADMIN" placeholder:"HOST:PORT" help:"Address that a broker was given with --admin-listen, instead of the socket."`
}

// maxAdminAnswer bounds what is read of an answer, in bytes.
const maxAdminAnswer = 64 << 20

// get asks for a path and decodes the answer into v.
func (f *adminFlags) get(ctx context.Context, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+path, nil)
	if err != nil {
		return usageError{err}
	}
	client := http.Client{Transport: &http.Transport{DialContext: f.dial, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no broker answers at %s: %w\nName its data directory with --data-dir, or the address of its --admin-listen with --admin", f.place(), errors.Unwrap(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return fmt.Errorf("answer of the admin port: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.Status, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("answer of the admin port: %w", err)
	}
	return nil
}

// refusal is the broker's sentence about why it does not answer.
func refusal(status string, body []byte) error {
	var said struct{ Error string }
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return errors.New("the admin port says " + status)
	}
	return errors.New(said.Error)
}

func (f *adminFlags) place() string {
	if f.Admin != "" {
		return f.Admin
	}
	return filepath.Join(f.DataDir, "admin.sock")
}

func (f *adminFlags) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if f.Admin != "" {
		return d.DialContext(ctx, "tcp", f.Admin)
	}
	return d.DialContext(ctx, "unix", f.place())
}
