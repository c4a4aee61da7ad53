package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire stands between clients and a broker, which must advertise its address, and notes what passes: what a client of any kind is told, and how many bytes
// it sends and gets.
type wire struct {
	listener net.Listener

	mu     sync.Mutex
	broker string
	list   []exchange
	err    error
}

// exchange is a request and its answer.
type exchange struct {
	at       time.Time // when the answer passed
	client   string    // the client id
	key      int16
	sent     int           // bytes of the request
	got      int           // bytes of the answer
	throttle time.Duration // what the client is told to wait
}

// newWire listens. Connections wait for connect.
func newWire(address string) (*wire, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &wire{listener: l}, nil
}

func (w *wire) address() string { return w.listener.Addr().String() }

// connect begins to pass things on to a broker.
func (w *wire) connect(broker string) {
	w.broker = broker
	go func() {
		for {
			client, err := w.listener.Accept()
			if err != nil {
				return
			}
			go w.pass(client)
		}
	}()
}

// pass is the life of a connection.
func (w *wire) pass(client net.Conn) {
	defer client.Close()
	broker, err := net.Dial("tcp", w.broker)
	if err != nil {
		return
	}
	defer broker.Close()
	open := &flight{wire: w, asked: map[int32]exchange{}, versions: map[int32]int16{}}
	go func() {
		defer broker.Close()
		_ = frames(client, broker, open.request) // it ends with the client
	}()
	if err := frames(broker, client, open.answer); err != nil {
		w.mu.Lock()
		w.err = errors.Join(w.err, err)
		w.mu.Unlock()
	}
}

// frames copies, and shows each frame before it passes on.
func frames(from io.Reader, to io.Writer, see func([]byte) error) error {
	var size [4]byte
	for {
		if _, err := io.ReadFull(from, size[:]); err != nil {
			return nil // hung up
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(from, frame); err != nil {
			return nil
		}
		if err := see(frame); err != nil {
			return err
		}
		if _, err := to.Write(append(size[:], frame...)); err != nil {
			return nil
		}
	}
}

// flight are the requests of a connection that are not answered yet, by correlation id.
type flight struct {
	wire     *wire
	mu       sync.Mutex
	asked    map[int32]exchange
	versions map[int32]int16
}

// request takes a request's header apart.
func (f *flight) request(frame []byte) error {
	if len(frame) < 10 {
		return errors.New("a request without a header")
	}
	x := exchange{key: int16(binary.BigEndian.Uint16(frame)), sent: len(frame)}
	if n := int(int16(binary.BigEndian.Uint16(frame[8:]))); n > 0 && len(frame) >= 10+n {
		x.client = string(frame[10 : 10+n])
	}
	id := int32(binary.BigEndian.Uint32(frame[4:]))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[id], f.versions[id] = x, int16(binary.BigEndian.Uint16(frame[2:]))
	return nil
}

// answer notes an exchange.
func (f *flight) answer(frame []byte) error {
	id := int32(binary.BigEndian.Uint32(frame))
	f.mu.Lock()
	x, version := f.asked[id], f.versions[id]
	delete(f.asked, id)
	delete(f.versions, id)
	f.mu.Unlock()
	x.at, x.got = time.Now(), len(frame)
	var err error
	if x.throttle, err = throttleOf(x.key, version, frame[4:]); err != nil {
		return err
	}
	f.wire.mu.Lock()
	defer f.wire.mu.Unlock()
	f.wire.list = append(f.wire.list, x)
	return nil
}

// throttleOf reads the throttle time of an answer after its correlation id; an API may have none.
func throttleOf(key, version int16, body []byte) (time.Duration, error) {
	request := kmsg.RequestForKey(key)
	if request == nil || key == kmsg.ApiVersions.Int16() { // that may be of another version than was asked for
		return 0, nil
	}
	request.SetVersion(version)
	answer := request.ResponseKind()
	t, has := answer.(kmsg.ThrottleResponse)
	if !has {
		return 0, nil
	}
	if request.IsFlexible() {
		body = body[1:] // the tags of the header: nobody has any
	}
	if err := answer.ReadFrom(bytes.Clone(body)); err != nil {
		return 0, fmt.Errorf("answer of %s version %d: %w", kmsg.NameForKey(key), version, err)
	}
	ms, _ := t.Throttle()
	return time.Duration(ms) * time.Millisecond, nil
}

// exchanges are those of an API, but for the trial's own.
func (w *wire) exchanges(key kmsg.Key) (all []exchange, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.list {
		if x.key == key.Int16() && x.client != trialID {
			all = append(all, x)
		}
	}
	return all, w.err
}
