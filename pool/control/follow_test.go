package control_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/control/controltest"
)

// rawExec opens an exec's WebSocket without our client.
func rawExec(t *testing.T, socket string) *websocket.Conn {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	ws, _, err := websocket.Dial(t.Context(), "http://pool/v1/workers/web-0/exec", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

func TestFollowersGoOnOverARestart(t *testing.T) {
	folder := t.TempDir()
	b := &controltest.Backend{}
	b.SetPool(control.Pool{Name: "web", Workers: []control.Worker{{Name: "web-0"}}})
	add := func(n int) {
		b.AddEvent(control.Event{Worker: "web-0", Kind: "note", Reason: fmt.Sprint(n)})
		b.AddLine(control.LogLine{Worker: "web-0", Text: fmt.Sprint(n)})
	}
	add(1)
	add(2)
	socket, stop := controltest.Serve(t, folder, b, control.Options{})
	c := client(t, socket)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	enough := errors.New("enough")
	seen := make(chan string, 100)
	lost := make(chan error, 10)
	ended := make(chan error, 2)
	go func() {
		ended <- c.FollowEvents(ctx, control.EventQuery{Limit: 1}, func(err error) { lost <- err }, func(e control.Event) error {
			seen <- "event " + e.Reason
			if e.Reason == "4" {
				return enough
			}
			return nil
		})
	}()
	go func() {
		ended <- c.FollowLogs(ctx, control.LogQuery{Tail: 1}, nil, func(l control.LogLine) error {
			seen <- "line " + l.Text
			if l.Text == "4" {
				return enough
			}
			return nil
		})
	}()
	got := map[string]int{}
	for range 2 {
		got[<-seen]++
	}
	stop()
	if err := <-lost; !errors.Is(err, control.ErrLost) {
		t.Errorf("lost: %v", err)
	}
	add(3) // while nobody serves
	controltest.Serve(t, folder, b, control.Options{})
	add(4)
	for range 2 {
		if err := <-ended; !errors.Is(err, enough) {
			t.Errorf("the end: %v", err)
		}
	}
	close(seen)
	for s := range seen {
		got[s]++
	}
	for _, want := range []string{"event 2", "event 3", "event 4", "line 2", "line 3", "line 4"} {
		if got[want] != 1 {
			t.Errorf("%q came %d times", want, got[want])
		}
	}
	if len(got) != 6 {
		t.Errorf("more than wanted: %v", got)
	}
}

func TestFollowNeedsAPoolAtItsBeginning(t *testing.T) {
	c := client(t, t.TempDir()+"/"+control.SocketName)
	if err := c.FollowEvents(t.Context(), control.EventQuery{}, nil, nil); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("%v; want ErrNotRunning", err)
	}
}

func TestFollowPassesARefusalOn(t *testing.T) {
	socket, _ := controltest.Serve(t, t.TempDir(), &controltest.Backend{}, control.Options{})
	var e *control.Error
	err := client(t, socket).FollowLogs(t.Context(), control.LogQuery{Workers: []string{"web-9"}}, nil, nil)
	if !errors.As(err, &e) || e.Code != control.CodeNotFound || e.Status != http.StatusNotFound {
		t.Errorf("%v; want not found", err)
	}
}

func TestWatchGivesTheNewest(t *testing.T) {
	b := &controltest.Backend{}
	socket, _ := controltest.Serve(t, t.TempDir(), b, control.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := errors.New("done")
	err := client(t, socket).Watch(ctx, func(p control.Pool) error {
		if p.Desired == 50 {
			return done
		}
		if p.Desired == 0 {
			for i := range 50 {
				b.Change(func(p *control.Pool) { p.Desired = i + 1 })
			}
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Error(err)
	}
}

func TestLogsComeWhole(t *testing.T) {
	b := &controltest.Backend{}
	b.SetPool(control.Pool{Workers: []control.Worker{{Name: "web-0"}}})
	for i := range 3000 {
		b.AddLine(control.LogLine{Worker: "web-0", Text: fmt.Sprint(i, strings.Repeat("\x1b[31m\u00e9", 20))})
	}
	socket, _ := controltest.Serve(t, t.TempDir(), b, control.Options{})
	n := 0
	err := client(t, socket).Logs(t.Context(), control.LogQuery{Tail: -1}, func(l control.LogLine) error {
		if !strings.HasPrefix(l.Text, fmt.Sprint(n)) || !strings.HasSuffix(l.Text, "\x1b[31m\u00e9") {
			t.Errorf("line %d is %q", n, l.Text)
		}
		n++
		return nil
	})
	if n != 3000 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
}

// TestAReaderThatNeverReadsIsDropped holds that it costs the backend the
// stall time once, and nobody else anything.
func TestAReaderThatNeverReadsIsDropped(t *testing.T) {
	dropped := make(chan error, 1)
	b := &flood{dropped: dropped}
	socket, _ := controltest.Serve(t, t.TempDir(), b, control.Options{Stall: 50 * time.Millisecond})
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /v1/logs?follow=true HTTP/1.1\r\nHost: pool\r\n\r\n")
	select {
	case err := <-dropped:
		if err == nil {
			t.Error("the flood ended by itself")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the backend is still held up")
	}
	if err := client(t, socket).Health(t.Context()); err != nil {
		t.Error(err)
	}
}

// flood is a backend whose log never ends.
type flood struct {
	controltest.Backend
	dropped chan error
}

func (f *flood) Logs(_ context.Context, _ control.LogQuery, emit func(control.LogLine) error) error {
	for {
		if err := emit(control.LogLine{Worker: "w", Text: strings.Repeat("x", 1000)}); err != nil {
			f.dropped <- err
			return err
		}
	}
}

func TestServeEndsWithOpenStreams(t *testing.T) {
	b := &controltest.Backend{}
	socket, stop := controltest.Serve(t, t.TempDir(), b, control.Options{})
	c := client(t, socket)
	open, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- c.Watch(context.Background(), func(control.Pool) error { open <- struct{}{}; return nil })
	}()
	<-open
	stop()
	if err := <-ended; !errors.Is(err, control.ErrLost) {
		t.Errorf("%v; want ErrLost", err)
	}
}

// TestRetriesSlowDown counts the attempts to reach a pool that stays away.
func TestRetriesSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		tries := control.CountRetries(ctx)
		if tries < 20 || tries > 40 {
			t.Errorf("%d attempts in a minute", tries)
		}
	})
}
