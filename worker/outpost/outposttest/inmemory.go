package outposttest

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// InMemory serves the handler over in-memory connections and returns a client
// for it, whose requests may name any host. Nothing of it touches the network
// or real time, so it works inside a testing/synctest bubble. stop ends the
// server, its connections and its goroutines.
func InMemory(h http.Handler) (client *http.Client, stop func()) {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		server.Serve(l) // ends with ErrServerClosed, at stop
	}()
	transport := &http.Transport{DialContext: l.dial}
	return &http.Client{Transport: transport}, func() {
		server.Close()
		transport.CloseIdleConnections()
		<-finished
	}
}

// pipeListener hands one end of a pipe to the server for each dial.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "in memory" }
