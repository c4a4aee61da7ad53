package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jars are those of a broker of Apache Kafka.
const jars = "kafka-import/lib/*"

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

// kafka is one node of Apache Kafka, broker and controller together.
type kafka struct {
	Address string
	DataDir string

	dir     string
	process *exec.Cmd
	exited  chan error
}

// properties has the ports and the data directory filled in. Logs are cleaned and deleted soon, and the internal topics are small.
const properties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs=%[3]s
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=100
log.cleaner.dedupe.buffer.size=4000000
log.initial.task.delay.ms=100
`

// newKafka formats a data directory.
func newKafka(ctx context.Context, dir string) (*kafka, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	k := &kafka{Address: fmt.Sprintf("127.0.0.1:%d", ports[0]), DataDir: filepath.Join(dir, "kafka-logs"), dir: dir}
	text := fmt.Sprintf(properties, ports[0], ports[1], k.DataDir)
	if err := os.WriteFile(k.config(), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return k, k.java(ctx, "kafka.tools.StorageTool", "format", "-t", "c2x1aWNlLWthZmthLTEyMw", "-c", k.config()).Run()
}

func (k *kafka) config() string { return filepath.Join(k.dir, "server.properties") }

func (k *kafka) java(ctx context.Context, class string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "java", append([]string{"-Xmx400M", "-XX:TieredStopAtLevel=1", "-cp", jars, class}, args...)...)
}

// freePorts finds ports that nobody listens on.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// start returns when the broker answers.
func (k *kafka) start(ctx context.Context) error {
	k.process, k.exited = k.java(context.WithoutCancel(ctx), "kafka.Kafka", k.config()), make(chan error, 1)
	out, err := os.OpenFile(filepath.Join(k.dir, "kafka.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	k.process.Stdout, k.process.Stderr = out, out
	if err := k.process.Start(); err != nil {
		return err
	}
	go func() { k.exited <- k.process.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Address))
	if err != nil {
		return err
	}
	defer client.Close()
	for client.Ping(ctx) != nil {
		select {
		case err := <-k.exited:
			return fmt.Errorf("the broker of Kafka ended before it was ready: %v", err)
		case <-ctx.Done():
			return errors.Join(errors.New("the broker of Kafka was not ready in time"), k.kill())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// stop has Kafka close its logs.
func (k *kafka) stop() error {
	if err := k.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-k.exited: // 143
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(errors.New("the broker of Kafka did not stop in time"), k.kill())
	}
}

func (k *kafka) kill() error {
	err := k.process.Process.Kill()
	<-k.exited
	return err
}
