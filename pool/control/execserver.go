package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// openTime is how long a client may take to say what it wants executed.
const openTime = 10 * time.Second

var errClientGone = errors.New("the client is gone")

// exec upgrades to a WebSocket and runs one command. Whatever happens to the
// command is said in the last frame; a connection without one was cut.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	if err := queryOf(r).end(); err != nil {
		s.fail(w, err)
		return
	}
	if r.Header.Get("Upgrade") == "" {
		s.fail(w, Fail(CodeInvalid, "exec needs a WebSocket", "use pool exec"))
		return
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // Accept has answered
	}
	defer ws.CloseNow()
	conn := newExecConn(r.Context(), ws)
	defer conn.end(nil)
	req, err := readExecRequest(conn)
	if err != nil {
		conn.finish(frame{kind: frameProblem, problem: problemOf(err)})
		return
	}
	s.runExec(conn, r.PathValue("name"), req)
}

func readExecRequest(c *execConn) (ExecRequest, error) {
	ctx, cancel := context.WithTimeout(c.ctx, openTime)
	defer cancel()
	c.ws.SetReadLimit(maxExecParams)
	kind, message, err := c.ws.Read(ctx)
	if err != nil {
		return ExecRequest{}, err
	}
	c.ws.SetReadLimit(maxPayload + 1)
	var req ExecRequest
	d := json.NewDecoder(bytes.NewReader(message))
	d.DisallowUnknownFields()
	if kind != websocket.MessageText {
		err = errors.New("the first message must be text")
	} else if err = d.Decode(&req); err == nil {
		err = onlyOne(d)
	}
	if err != nil {
		return ExecRequest{}, Fail(CodeInvalid, "the first message must be what to execute, as JSON: "+err.Error(), "/v1/openapi.yaml describes it")
	}
	if len(req.Args) == 0 || req.Args[0] == "" {
		return ExecRequest{}, Fail(CodeInvalid, "no command was given", "as in: pool exec web-0 -- ls")
	}
	return req, nil
}

// runExec runs the command to its end and says how it ended. A client that is
// gone cancels it. All of its goroutines have ended when it returns.
func (s *server) runExec(c *execConn, worker string, req ExecRequest) {
	stdin := newInbox()
	sizes := make(chan Size, 1)
	var alive sync.WaitGroup
	alive.Go(func() {
		err := receiveInput(c, stdin, sizes)
		stdin.close(errClientGone)
		c.end(fmt.Errorf("%w: %w", errClientGone, err))
	})
	alive.Go(func() { c.beat(s.options.Keepalive) })

	streams := ExecStreams{Stdout: writer{c, frameStdout}, Stderr: writer{c, frameStderr}, Resize: sizes}
	if req.Stdin {
		streams.Stdin = &reader{in: stdin, consumed: c.consumed}
	}
	code, err := s.backend.Exec(c.ctx, worker, req, streams)
	stdin.close(io.ErrClosedPipe) // whoever still copies from it ends, too
	switch {
	case c.ctx.Err() != nil:
		// Cut: what the backend returned may be about the end we brought it.
	case err != nil:
		c.finish(frame{kind: frameProblem, problem: problemOf(err)})
	default:
		c.finish(frame{kind: frameExit, code: code})
	}
	c.end(nil)
	alive.Wait()
}

// receiveInput takes in what the client sends until the connection ends. It
// never waits for the command. It closes sizes.
func receiveInput(c *execConn, stdin *inbox, sizes chan Size) error {
	defer close(sizes)
	for {
		f, err := c.receive()
		if err != nil {
			return err
		}
		switch f.kind {
		case frameStdin:
			err = stdin.put(f)
		case frameStdinEnd:
			stdin.close(io.EOF)
		case frameCredit:
			err = c.out.give(f.credit)
		case frameResize:
			newestSize(sizes, f.size)
		default:
			err = fmt.Errorf("exec protocol: frame of kind %d comes from the server only", f.kind)
		}
		if err != nil {
			return err
		}
	}
}

// newestSize replaces a size that nobody has taken yet.
func newestSize(sizes chan Size, s Size) {
	select {
	case <-sizes:
	default:
	}
	sizes <- s // the only sender: there is room
}
