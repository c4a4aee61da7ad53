package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"sluice/catalog"
	"sluice/config"
	"sluice/internal/coord"
	"sluice/internal/machine"
	"sluice/internal/server"
	"sluice/internal/vfs"
	"sluice/log"
)

// NodeID is the only node's and the controller's id.
const NodeID = 1

// Options of a broker.
type Options struct {
	DataDir   string
	FS        vfs.FS
	Static    map[string]string // settings of file, environment and --set, merged and validated
	Advertise string            // host:port told to clients; "" means the address each connection reached
	Logger    *slog.Logger      // nil: silent
	OpenFiles int               // how many files of segments may be open; 0: log.DefaultOpenFiles
	Clock     func() time.Time  // the wall clock that retention goes by; nil: time.Now
}

// Broker implements server.Handler.
type Broker struct {
	opts      Options
	logger    *slog.Logger
	advertise hostPort // zero: the address each connection reached
	clusterID string
	epoch     int32 // of this start; the leader epoch of every partition

	dir           *log.Dir
	catalog       *coord.Shard
	settings      atomic.Pointer[settings]
	topics        *topics
	groups        *groups
	groupConfigs  groupConfigs
	quotas        quotas
	resolver      *resolver
	stalls        *stalls
	pids          pidAllocator
	deletions     deletions
	retention     retention
	cleaner       *log.Cleaner // nil: log.cleaner.enable is false
	scrubber      *log.Scrubber
	metrics       *metrics
	produceCalls  sync.Pool     // 00_produce.go; the broker's own, as a call keeps its timer
	fetchSessions fetchSessions // fetch_session.go; the zero value is ready
	holdable      int           // ranges that an answer may hold; fetch_keep.go
	dispatch      *dispatch
	ready         atomic.Bool // between the end of Start and Close
	refused       error       // why the settings that were found at the start cannot be in force
	// dispatchChanged hears of the limits of dispatch throttling, when they change and for all that stands while the broker starts. t is
	// the topic that changed or is new, whose own limits are in t.config().Dispatch; it is nil for the rest, which is in
	// config().Dispatch and groupConfigs.policies(). The calls come one at a time, and before the reply of the request that made
	// the change. It must not wait.
	dispatchChanged func(t *topic)
}

// Start recovers the data directory, replays the catalog and raises the epoch; the broker may then be given to a server.
// On an empty directory it costs at most four syncs.
func Start(o Options) (*Broker, error) {
	b, err := newBroker(o)
	if err != nil {
		return nil, err
	}
	meta, err := readMeta(o.FS, o.DataDir)
	if err == nil {
		err = meta.check()
	}
	if err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	if b.dir, err = log.Open(o.DataDir, log.Options{FS: o.FS, Logger: b.logger, OpenFiles: o.OpenFiles, BallastBytes: b.config().BallastBytes}); err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	b.topics = newTopics(b.dir, b.dispatch)
	if err := b.load(meta); err != nil {
		return nil, errors.Join(fmt.Errorf("start broker: %w", err), b.Close(context.Background()))
	}
	b.startCleaner()
	b.startScrubber()
	b.ready.Store(true)
	b.retention.start(b)
	return b, nil
}

// newBroker makes a broker that holds nothing yet.
func newBroker(o Options) (*Broker, error) {
	b := &Broker{opts: o, logger: o.Logger, holdable: holdable(cmp.Or(o.OpenFiles, log.DefaultOpenFiles))}
	if b.opts.Clock == nil {
		b.opts.Clock = time.Now
	}
	if b.logger == nil {
		b.logger = slog.New(slog.DiscardHandler)
	}
	if o.Advertise != "" {
		a, err := parseHostPort(o.Advertise)
		if err != nil {
			return nil, fmt.Errorf("start broker: the advertised address: %w", err)
		}
		b.advertise = a
	}
	first, err := newSettings(config.Layers{Static: o.Static, Stated: o.stated()})
	if err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	b.settings.Store(first)
	b.quotas.settings = b.quotaSettings
	b.pids.reserve = b.reserveProducerIDs
	b.dispatch = newDispatch(func() { b.quotas.limits.Sweep(quotaNow()) })
	b.dispatchChanged = b.limitsChanged
	b.groups = newGroups(b)
	b.resolver = newResolver(b.groups.owners)
	b.resolver.unresolved = func() string { return b.config().UnresolvedSubscription }
	b.resolver.topicOf = func(name string) *topic { return b.topics.byName(name) }
	b.resolver.hint = func() *regexp.Regexp { return b.config().GroupOfClientID }
	b.stalls = b.newStalls()
	b.metrics = newMetrics(b)
	b.resolver.counted = b.metrics.groups.resolved
	b.limitsChanged(nil)
	return b, nil
}

// stated are the settings that nothing sets but the command line.
func (o Options) stated() map[string]string {
	m := map[string]string{"log.dir": o.DataDir, "log.dirs": o.DataDir}
	if o.Advertise != "" {
		m["advertised.listeners"] = "PLAINTEXT://" + o.Advertise
	}
	return m
}

// load replays the catalog and brings topics and settings to what it says.
func (b *Broker) load(meta metaProperties) error {
	if err := b.openCatalog(); err != nil {
		return err
	}
	if err := b.begin(meta); err != nil {
		return err
	}
	if err := b.reconcile(); err != nil {
		return err
	}
	b.groups.open()
	b.stalls.start(b.logger)
	return nil
}

// openCatalog opens the catalog's log and replays it.
func (b *Broker) openCatalog() error {
	l := b.dir.Log(catalogTopic, catalogTopicID, 0, catalogConfig())
	// The record that begins this run is stamped before its answer names the epoch; it must not carry an older one
	// than what stands in the log already.
	last, err := l.Epoch()
	if err != nil {
		return fmt.Errorf("open the catalog: %w", err)
	}
	b.dir.SetEpoch(last + 1)
	b.catalog, err = coord.Open(b.newCatalog, &machineLog{log: l}, coord.Options{Logger: b.logger, Orders: b.follow})
	if err != nil {
		return fmt.Errorf("open the catalog: %w", err)
	}
	return b.refused
}

// catalogSegmentBytes is small, so that the catalog is compacted often and its replay stays short: a start reads what is in force, and some of what was.
const catalogSegmentBytes = 4 << 20

// catalogConfig has the catalog's log compacted: its records say what is, by key.
func catalogConfig() *log.Config {
	c := log.DefaultConfig()
	c.Compact, c.SegmentBytes = true, catalogSegmentBytes
	return c
}

func (b *Broker) newCatalog() machine.Machine {
	return catalog.New(catalog.Options{
		MaxPartitions:   func() int { return b.config().MaxPartitions },
		ValidateConfig:  b.validateConfigs,
		ValidateBrokers: b.validateBrokers,
	})
}

// begin starts a run: the cluster's id for ever, a new epoch for every partition.
func (b *Broker) begin(meta metaProperties) error {
	v, err := b.catalog.Ask(context.Background(), catalog.Start{NewClusterID: newUUID().String()})
	if err != nil {
		return fmt.Errorf("begin a run in the catalog: %w", err)
	}
	started := v.(catalog.Started)
	if err := meta.checkCluster(started.ClusterID); err != nil {
		return err
	}
	b.clusterID, b.epoch = started.ClusterID, started.Epoch
	b.dir.SetEpoch(started.Epoch)
	return meta.write(b.opts.FS, b.opts.DataDir, started.ClusterID)
}

// Close syncs everything and lets the data directory go. The server must have been shut down before.
func (b *Broker) Close(ctx context.Context) error {
	b.ready.Store(false)
	b.dispatch.close()
	b.retention.close()
	b.stopCleaner()
	b.stopScrubber()
	b.stalls.stop()
	b.groups.close()
	if b.catalog != nil {
		b.catalog.Close()
	}
	if err := b.dir.Close(ctx); err != nil {
		return fmt.Errorf("close broker: %w", err)
	}
	return nil
}

// ConnClosed forgets what is kept of a connection. The server calls it when the last request there has ended.
func (b *Broker) ConnClosed(c *server.Conn) {
	if s, ok := c.Session.(*connState); ok {
		b.resolver.closed(s)
	}
}

// ClusterID is made at the first start and stands for ever.
func (b *Broker) ClusterID() string { return b.clusterID }

// Epoch is the leader epoch of every partition in this run.
func (b *Broker) Epoch() int32 { return b.epoch }

// config is the settings in force now.
func (b *Broker) config() *config.Broker { return b.settings.Load().broker }

// Config is the settings in force now, for the server that listens for this broker.
func (b *Broker) Config() config.Broker { return *b.config() }

var _ server.Handler = (*Broker)(nil)
