// Package sluice runs a Kafka-protocol log broker inside a Go program or test; the sluice command is a thin shell around it.
//
//	b, err := sluice.Start(sluice.Options{InMemory: true})
//	if err != nil { ... }
//	defer b.Close()
//	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
//
// Any Kafka client reaches it at Addr. With a DataDir what was acknowledged survives a power cut.
package sluice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sluice/broker"
	"sluice/config"
	"sluice/internal/server"
	"sluice/internal/vfs"
)

const (
	// ShutdownTime is how long Close lets requests in flight finish.
	ShutdownTime = 4 * time.Second
	// adminSocket is in the data directory, for its owner only.
	adminSocket = "admin.sock"
	// adminHeaderTime bounds how long a client of the admin port may take to say what it wants.
	adminHeaderTime = 10 * time.Second
)

// Options of Start. The zero value needs a DataDir or InMemory.
type Options struct {
	// DataDir is made if missing. One process at a time holds it.
	DataDir string
	// InMemory keeps everything in memory: for tests. Nothing survives Close.
	InMemory bool
	// Listen is the address for Kafka clients; "" is 127.0.0.1 with a free port. With 127.0.0.1 the same port of ::1 is opened beside it.
	Listen string
	// Advertise is the host:port told to clients; "" tells each connection the address it reached.
	Advertise string
	// Insecure allows a Listen or AdminListen that other machines can reach, although there is no authentication.
	Insecure bool
	// AdminListen opens the admin HTTP port on TCP, beside the socket in the data directory. "" opens none.
	AdminListen string
	// Settings are broker settings by their Kafka names (docs/config.md).
	Settings map[string]string
	// Logger is where the broker tells what happens; nil is silence.
	Logger *slog.Logger
}

// Broker is a running broker.
type Broker struct {
	broker *broker.Broker
	server *server.Server
	admin  *http.Server
	addr   string
	files  fileShares

	stopping sync.Once
	stopped  error
	serving  sync.WaitGroup
}

// Start recovers the data directory and serves. When it returns, clients can connect to Addr.
func Start(o Options) (*Broker, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	files, err := shareFiles()
	if err != nil {
		return nil, err
	}
	core, err := broker.Start(broker.Options{DataDir: o.DataDir, FS: o.fs(), OpenFiles: files.segments, Static: o.Settings, Advertise: o.Advertise, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	b := &Broker{broker: core, files: files}
	if err := b.open(o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Addr is the host:port that clients reach.
func (b *Broker) Addr() string { return b.addr }

// ClusterID is the cluster's id, the same for the life of the data directory.
func (b *Broker) ClusterID() string { return b.broker.ClusterID() }

// Close is Shutdown within ShutdownTime.
func (b *Broker) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), ShutdownTime)
	defer cancel()
	return b.Shutdown(ctx)
}

// Shutdown stops taking requests, lets those in flight finish until ctx ends, makes everything durable and lets go of the data directory.
func (b *Broker) Shutdown(ctx context.Context) error {
	b.stopping.Do(func() {
		var errs []error
		if b.server != nil {
			if err := b.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				errs = append(errs, err)
			}
		}
		if b.admin != nil {
			errs = append(errs, b.admin.Close())
		}
		b.serving.Wait()
		// What was acknowledged is durable already; the rest gets its chance even if the clients took all the time.
		errs = append(errs, b.broker.Close(context.WithoutCancel(ctx)))
		b.stopped = errors.Join(errs...)
	})
	return b.stopped
}

func (o *Options) check() error {
	switch {
	case o.DataDir == "" && !o.InMemory:
		return errors.New("sluice needs a data directory (or InMemory)")
	case o.DataDir != "" && o.InMemory:
		return errors.New("a broker in memory has no data directory")
	}
	if o.InMemory {
		o.DataDir = "memory"
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if o.Settings, err = config.ByName(o.Settings); err != nil {
		return err
	}
	for key, value := range o.Settings {
		if err := config.Validate(config.ScopeBroker, key, value); err != nil {
			return err
		}
	}
	return o.checkListeners()
}

// checkListeners refuses to be reachable from other machines by accident: there is no authentication.
func (o *Options) checkListeners() error {
	for _, addr := range []string{o.Listen, o.AdminListen} {
		if addr == "" || o.Insecure {
			continue
		}
		local, err := isLoopback(addr)
		if err != nil {
			return err
		}
		if !local {
			return fmt.Errorf("%s can be reached from other machines, and there is no authentication: listen on 127.0.0.1, or say --insecure if the network is trusted", addr)
		}
	}
	return nil
}

func isLoopback(addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("address %q is not host:port: %w", addr, err)
	}
	if host == "localhost" {
		return true, nil
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback(), nil
}

func (o *Options) fs() vfs.FS {
	if o.InMemory {
		return vfs.NewMem()
	}
	return vfs.Disk{}
}

// open starts the listeners.
func (b *Broker) open(o Options) error {
	listeners, err := server.Listen(o.Listen)
	if err != nil {
		return listenError("Kafka clients", o.Listen, err)
	}
	b.addr = listeners[0].Addr().String()
	c := b.broker.Config()
	b.server = server.New(b.broker, server.Options{
		MaxFrame: c.SocketRequestMaxBytes, MaxConns: min(c.MaxConnections, b.files.connections), MaxConnsPerIP: c.MaxConnectionsPerIP,
		MemoryBytes: max(0, c.QueuedMaxRequestBytes), IdleTimeout: idleTimeout(c.ConnectionsMaxIdle),
		SendBuffer: c.SocketSendBuffer, ReceiveBuffer: c.SocketReceiveBuffer,
		OnClose: b.broker.ConnClosed, Logger: o.Logger, Metrics: server.NewMetrics(b.broker.Metrics()),
	})
	for _, l := range listeners {
		b.serving.Go(func() {
			if err := b.server.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
				o.Logger.Error("listener ended", "address", l.Addr().String(), "error", err)
			}
		})
	}
	return b.openAdmin(o)
}

// listenError says what to do about an address that cannot be had.
func listenError(purpose, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another process: stop that one, or choose another address for %s (port 0 takes a free one): %w", addr, purpose, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("this user may not listen on %s: ports below 1024 need the right to (CAP_NET_BIND_SERVICE); choose another address for %s: %w", addr, purpose, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is no address of this machine: choose another one for %s: %w", addr, purpose, err)
	}
	return fmt.Errorf("listen on %s for %s: %w", addr, purpose, err)
}

// idleTimeout is the server's form of connections.max.idle.ms, where a negative value means for ever.
func idleTimeout(d time.Duration) time.Duration {
	if d < 0 {
		return math.MaxInt64
	}
	return d
}

// openAdmin serves the admin HTTP port on the data directory's socket and, if asked, on TCP.
func (b *Broker) openAdmin(o Options) error {
	var listeners []net.Listener
	if !o.InMemory {
		l, err := listenSocket(filepath.Join(o.DataDir, adminSocket))
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	if o.AdminListen != "" {
		l, err := net.Listen("tcp", o.AdminListen)
		if err != nil {
			return listenError("the admin port", o.AdminListen, err)
		}
		listeners = append(listeners, l)
	}
	b.admin = &http.Server{Handler: b.broker.AdminHandler(), ReadHeaderTimeout: adminHeaderTime, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)}
	for _, l := range listeners {
		b.serving.Go(func() { _ = b.admin.Serve(l) }) // ends with Close
	}
	return nil
}

// maxSocketPath is what the kernel takes of a socket's name (sun_path).
const maxSocketPath = 107

// listenSocket opens a unix socket that only its owner can use; what a killed broker left of it is replaced. The data directory's lock is held.
func listenSocket(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		// A path relative to the working directory may still fit; the command line looks there too.
		if wd, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(wd, path); err == nil && len(rel) <= maxSocketPath {
				path = rel
			}
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old admin socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open admin socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("protect admin socket: %w", err)
	}
	return l, nil
}
