package control_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/control/controltest"
)

type execFunc = func(context.Context, string, control.ExecRequest, control.ExecStreams) (int, error)

// execServer serves a pool of one worker, web-0, whose exec is run.
func execServer(t *testing.T, run execFunc, o control.Options) (c *control.Client, stop func()) {
	t.Helper()
	b := &controltest.Backend{OnExec: run}
	b.SetPool(control.Pool{Workers: []control.Worker{{Name: "web-0"}}})
	socket, stop := controltest.Serve(t, t.TempDir(), b, o)
	return client(t, socket), stop
}

func args(list ...string) control.ExecRequest { return control.ExecRequest{Args: list} }

func TestExecPassesCodesAndStreams(t *testing.T) {
	c, _ := execServer(t, controltest.RunHere(t.TempDir()), control.Options{})
	for _, want := range []int{0, 1, 7, 125, 255} {
		var out, errs bytes.Buffer
		code, err := c.Exec(t.Context(), "web-0", args("sh", "-c", fmt.Sprintf("cat; echo err >&2; exit %d", want)),
			control.ExecStreams{Stdin: strings.NewReader("in\x00\xff"), Stdout: &out, Stderr: &errs})
		if code != want || err != nil || out.String() != "in\x00\xff" || errs.String() != "err\n" {
			t.Errorf("code %d, %v, out %q, err %q; want code %d", code, err, &out, &errs, want)
		}
	}
	if code, err := c.Exec(t.Context(), "web-0", args("sh", "-c", "cat; exit 3"), control.ExecStreams{}); code != 3 || err != nil {
		t.Errorf("without streams: %d, %v", code, err)
	}
}

func TestExecKeepsTheSupervisorsError(t *testing.T) {
	c, _ := execServer(t, nil, control.Options{})
	var e *control.Error
	if _, err := c.Exec(t.Context(), "web-0", args("true"), control.ExecStreams{}); !errors.As(err, &e) || e.Code != control.CodeUnavailable {
		t.Errorf("no sandbox: %v", err)
	}
	if _, err := c.Exec(t.Context(), "web-9", args("true"), control.ExecStreams{}); !errors.As(err, &e) || e.Code != control.CodeNotFound {
		t.Errorf("no worker: %v", err)
	}
	if _, err := c.Exec(t.Context(), "web-0", control.ExecRequest{}, control.ExecStreams{}); !errors.As(err, &e) || e.Code != control.CodeInvalid {
		t.Errorf("no command: %v", err)
	}
}

// TestExecLargeStreams sends 100 MB one way and 32 MB there and back.
func TestExecLargeStreams(t *testing.T) {
	random := func(size int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), size) }
	run := func(_ context.Context, _ string, r control.ExecRequest, s control.ExecStreams) (int, error) {
		from := s.Stdin
		if r.Args[0] == "give" {
			from = random(100 << 20)
		}
		_, err := io.Copy(s.Stdout, from)
		return 42, err
	}
	c, _ := execServer(t, run, control.Options{})
	for verb, size := range map[string]int64{"give": 100 << 20, "echo": 32 << 20} {
		want, got := sha256.New(), sha256.New()
		io.Copy(want, random(size))
		code, err := c.Exec(t.Context(), "web-0", args(verb), control.ExecStreams{Stdin: random(size), Stdout: got})
		if code != 42 || err != nil {
			t.Errorf("%s: %d, %v", verb, code, err)
		}
		if !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
			t.Errorf("%s: what came differs from what was sent", verb)
		}
	}
}

// TestExecWaitsForASlowReader holds that a reader which stops for longer than
// the signs of life allow is waited for, keeps the sender within the window,
// and loses nothing.
func TestExecWaitsForASlowReader(t *testing.T) {
	const size = 8 << 20
	written := make(chan int, size)
	run := func(_ context.Context, _ string, _ control.ExecRequest, s control.ExecStreams) (int, error) {
		piece := make([]byte, 64<<10)
		for range size / len(piece) {
			n, err := s.Stdout.Write(piece)
			if err != nil {
				return 0, err
			}
			written <- n
		}
		return 5, nil
	}
	c, _ := execServer(t, run, control.Options{Keepalive: 250 * time.Millisecond})
	slow := &slowWriter{pause: 1200 * time.Millisecond, before: func() int { return len(written) * 64 << 10 }}
	code, err := c.Exec(t.Context(), "web-0", args("x"), control.ExecStreams{Stdout: slow})
	if code != 5 || err != nil || slow.got != size {
		t.Errorf("code %d, %v, %d bytes; want 5 and %d", code, err, slow.got, size)
	}
	if slow.ahead > 2<<20 {
		t.Errorf("the sender was %d bytes ahead", slow.ahead)
	}
}

type slowWriter struct {
	pause      time.Duration
	before     func() int
	got, ahead int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.got == 0 {
		time.Sleep(w.pause) // the pause is what is tested
		w.ahead = w.before()
	}
	w.got += len(p)
	return len(p), nil
}

func TestExecIgnoredInputDoesNotBlock(t *testing.T) {
	run := func(context.Context, string, control.ExecRequest, control.ExecStreams) (int, error) { return 9, nil }
	c, _ := execServer(t, run, control.Options{})
	in, feed := io.Pipe()
	defer feed.Close()
	if code, err := c.Exec(t.Context(), "web-0", args("x"), control.ExecStreams{Stdin: in}); code != 9 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}

func TestExecCutIsNotSuccess(t *testing.T) {
	started := make(chan struct{})
	run := func(ctx context.Context, _ string, _ control.ExecRequest, s control.ExecStreams) (int, error) {
		s.Stdout.Write([]byte("half"))
		close(started)
		<-ctx.Done()
		return 0, nil // even a careless backend
	}
	c, stop := execServer(t, run, control.Options{})
	go func() {
		<-started
		stop()
	}()
	code, err := c.Exec(context.Background(), "web-0", args("x"), control.ExecStreams{})
	if !errors.Is(err, control.ErrResultUnknown) {
		t.Errorf("code %d, %v; want ErrResultUnknown", code, err)
	}
}

func TestExecEndsWithItsClient(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	run := func(ctx context.Context, _ string, _ control.ExecRequest, s control.ExecStreams) (int, error) {
		close(started)
		_, err := io.Copy(io.Discard, s.Stdin) // an end of the client is no end of the input
		<-ctx.Done()
		ended <- err
		return 0, ctx.Err()
	}
	c, _ := execServer(t, run, control.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-started
		cancel()
	}()
	in, feed := io.Pipe()
	defer feed.Close()
	if _, err := c.Exec(ctx, "web-0", args("x"), control.ExecStreams{Stdin: in}); !errors.Is(err, control.ErrResultUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("the client's own end: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the command saw a proper end of its input")
	}
}

func TestExecResizes(t *testing.T) {
	got := make(chan control.Size)
	run := func(_ context.Context, _ string, r control.ExecRequest, s control.ExecStreams) (int, error) {
		got <- r.Size
		got <- <-s.Resize
		return 0, nil
	}
	c, _ := execServer(t, run, control.Options{})
	sizes := make(chan control.Size)
	done := make(chan error, 1)
	req := control.ExecRequest{Args: []string{"x"}, TTY: true, Size: control.Size{Rows: 24, Cols: 80}}
	go func() {
		_, err := c.Exec(context.Background(), "web-0", req, control.ExecStreams{Resize: sizes})
		done <- err
	}()
	if s := <-got; s != req.Size {
		t.Errorf("at the start %v", s)
	}
	sizes <- control.Size{Rows: 50, Cols: 132}
	if s := <-got; s != (control.Size{Rows: 50, Cols: 132}) {
		t.Errorf("after a resize %v", s)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestExecBrokenOutput is what `pool exec … | head` does.
func TestExecBrokenOutput(t *testing.T) {
	ended := make(chan struct{})
	run := func(_ context.Context, _ string, _ control.ExecRequest, s control.ExecStreams) (int, error) {
		defer close(ended)
		for {
			if _, err := s.Stdout.Write(make([]byte, 1<<10)); err != nil {
				return 0, err
			}
		}
	}
	c, _ := execServer(t, run, control.Options{})
	out, in := io.Pipe()
	out.Close()
	if _, err := c.Exec(t.Context(), "web-0", args("yes"), control.ExecStreams{Stdout: in}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v; want the pipe's own error", err)
	}
	<-ended
}

// TestExecRefusesABadClient holds that a broken protocol ends the connection
// and the command, and nothing else.
func TestExecRefusesABadClient(t *testing.T) {
	ended := make(chan struct{}, 1)
	run := func(ctx context.Context, _ string, _ control.ExecRequest, _ control.ExecStreams) (int, error) {
		<-ctx.Done()
		ended <- struct{}{}
		return 0, ctx.Err()
	}
	b := &controltest.Backend{OnExec: run}
	b.SetPool(control.Pool{Workers: []control.Worker{{Name: "web-0"}}})
	socket, _ := controltest.Serve(t, t.TempDir(), b, control.Options{})
	for name, bad := range map[string][]byte{
		"an exit code from the client": {6, 0, 0, 0, 0},
		"an unknown kind":              {99},
		"nothing":                      {},
		"too much credit":              {8, 0, 0, 0, 1},
		"a short resize":               {5, 1},
	} {
		ws := rawExec(t, socket)
		ws.Write(t.Context(), websocket.MessageText, []byte(`{"args":["x"]}`))
		ws.Write(t.Context(), websocket.MessageBinary, bad)
		for {
			if _, _, err := ws.Read(t.Context()); err != nil {
				break
			}
		}
		<-ended
		ws.CloseNow()
		t.Log(name)
	}
	if err := client(t, socket).Health(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestExecRefusesABadFirstMessage(t *testing.T) {
	b := &controltest.Backend{}
	b.SetPool(control.Pool{Workers: []control.Worker{{Name: "web-0"}}})
	socket, _ := controltest.Serve(t, t.TempDir(), b, control.Options{})
	for _, first := range []string{`{"args":["x"],"sudo":true}`, `[]`, `{`, `{"args":[]}`} {
		ws := rawExec(t, socket)
		ws.Write(t.Context(), websocket.MessageText, []byte(first))
		_, message, err := ws.Read(t.Context())
		if err != nil || message[0] != 7 || !strings.Contains(string(message), control.CodeInvalid) {
			t.Errorf("%s: %q, %v; want a Problem", first, message, err)
		}
		ws.CloseNow()
	}
}
