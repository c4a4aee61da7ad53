package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// pairTries is how often Listen looks for a port that is free on both loopback addresses.
const pairTries = 20

// Listen opens addr for Kafka clients: for 127.0.0.1 (or localhost) the listener on ::1 with the same port stands
// beside it where IPv6 exists, since clients resolve localhost to either. Port 0 picks one for both.
func Listen(addr string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if host != "127.0.0.1" && host != "localhost" {
		l, err := listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	for try := 1; ; try++ {
		pair, err := listenPair(port)
		if err == nil || port != "0" || try == pairTries || !errors.Is(err, syscall.EADDRINUSE) {
			return pair, err
		}
	}
}

func listenPair(port string) ([]net.Listener, error) {
	four, err := listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	chosen := strconv.Itoa(four.Addr().(*net.TCPAddr).Port)
	six, err := listen("tcp6", net.JoinHostPort("::1", chosen))
	switch {
	case err == nil:
		return []net.Listener{four, six}, nil
	case errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES):
		four.Close()
		return nil, err
	}
	return []net.Listener{four}, nil // no IPv6 here
}

func listen(network, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: keepAlive}
	l, err := lc.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, err // it names the operation and the address
	}
	return l, nil
}
