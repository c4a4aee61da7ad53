package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	broker "sluice"
	"sluice/config"
)

// serveCmd runs the broker.
type serveCmd struct {
	DataDir     string   `help:"Directory that keeps the data; made if missing (default ${default})." default:"./sluice-data" env:"SLUICE_DATA_DIR" placeholder:"DIR"`
	Listen      string   `help:"Address for Kafka clients; port 0 picks a free one (default ${default})." default:"127.0.0.1:9092" env:"SLUICE_LISTEN" placeholder:"HOST:PORT"`
	Advertise   string   `help:"Address told to clients (default: the one each connection reached)." env:"SLUICE_ADVERTISE" placeholder:"HOST:PORT"`
	Config      string   `help:"File of settings in server.properties format." env:"SLUICE_CONFIG" placeholder:"FILE"`
	Set         []string `help:"Setting by its Kafka name; may be repeated. See docs/config.md." placeholder:"KEY=VALUE" sep:"none"`
	ReadyFile   string   `help:"File that appears, holding HOST:PORT and a newline, when clients can connect." env:"SLUICE_READY_FILE" placeholder:"FILE"`
	AdminListen string   `help:"Address of the admin HTTP port (/metrics, /healthz, /readyz, /v1/) on TCP, beside DATA-DIR/admin.sock." env:"SLUICE_ADMIN_LISTEN" placeholder:"HOST:PORT"`
	Insecure    bool     `help:"Allow a listener that other machines can reach although there is no authentication."`
	LogLevel    string   `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info" env:"SLUICE_LOG_LEVEL"`
	LogFormat   string   `help:"text or json." enum:"text,json" default:"text" env:"SLUICE_LOG_FORMAT"`
}

// Run serves until ctx ends with the first SIGTERM or SIGINT, then stops; a second signal ends the process at once, and the next start recovers.
func (c *serveCmd) Run(ctx context.Context, s *streams) error {
	logger, err := newLogger(s.err, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	settings, err := c.settings(os.Environ(), logger)
	if err != nil {
		return usageError{err}
	}
	if err := removeReadyFile(c.ReadyFile); err != nil {
		return err
	}
	b, err := broker.Start(broker.Options{
		DataDir: c.DataDir, Listen: c.Listen, Advertise: c.Advertise, Insecure: c.Insecure, AdminListen: c.AdminListen,
		Settings: settings, Logger: logger,
	})
	if err != nil {
		return err
	}
	if err := writeReadyFile(c.ReadyFile, b.Addr()); err != nil {
		return errors.Join(err, b.Close())
	}
	go tendHeap(ctx)
	logger.Info("ready", "address", b.Addr(), "data", c.DataDir, "cluster", b.ClusterID())
	<-ctx.Done()
	logger.Info("stopping")
	if err := b.Close(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	logger.Info("stopped")
	return nil
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, err
	}
	o := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}

// settings merges file, environment and --set, the later winning, and warns about keys that Kafka knows and that mean nothing here.
func (c *serveCmd) settings(environ []string, logger *slog.Logger) (map[string]string, error) {
	merged := map[string]string{}
	if c.Config != "" {
		text, err := os.ReadFile(c.Config)
		if err != nil {
			return nil, fmt.Errorf("read settings: %w", err)
		}
		file, err := config.ParseProperties(text)
		if err != nil {
			return nil, fmt.Errorf("settings in %s: %w", c.Config, err)
		}
		if merged, err = config.ByName(file); err != nil {
			return nil, fmt.Errorf("settings in %s: %w", c.Config, err)
		}
	}
	env, err := config.FromEnviron(environ)
	if err != nil {
		return nil, err
	}
	maps.Copy(merged, env)
	for _, kv := range c.Set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--set %q is not KEY=VALUE", kv)
		}
		key = strings.TrimSpace(key)
		if name, ok := config.Canonical(config.ScopeBroker, key); ok {
			key = name
		}
		merged[key] = value
	}
	return merged, checkSettings(merged, logger)
}

func checkSettings(settings map[string]string, logger *slog.Logger) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if why, ignored := config.Ignored(key); ignored {
			logger.Warn("setting has no effect", "key", key, "why", why)
			delete(settings, key)
			continue
		}
		if err := config.Validate(config.ScopeBroker, key, settings[key]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func removeReadyFile(name string) error {
	if name == "" {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old ready file: %w", err)
	}
	return nil
}

// writeReadyFile makes the file appear whole, by rename.
func writeReadyFile(name, addr string) error {
	if name == "" {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".ready-*")
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	_, err = temp.WriteString(addr + "\n")
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("write ready file: %w", err)
	}
	return nil
}
