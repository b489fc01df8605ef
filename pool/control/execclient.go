package control

import (
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

// ErrResultUnknown says that an exec's connection ended without an exit code.
var ErrResultUnknown = errors.New("connection lost: the command's result is unknown")

// clientBeat is the time between a client's signs of life during an exec.
const clientBeat = 15 * time.Second

// errPipe marks a failure to write what the command printed.
type errPipe struct{ error }

func (e errPipe) Unwrap() error { return e.error }

// Exec runs a command in a worker's sandbox and returns its exact exit code.
// Streams that are nil are empty or thrown away; Resize may be nil. Cancelling
// ctx ends the command. A connection that ends without an exit code is
// ErrResultUnknown. A Read of Stdin that is under way when the command ends is
// left behind until it returns; nothing is lost but what it reads.
func (c *Client) Exec(ctx context.Context, worker string, r ExecRequest, s ExecStreams) (int, error) {
	r.Stdin = s.Stdin != nil
	conn, err := c.openExec(ctx, worker, r)
	if err != nil {
		return 0, err
	}
	defer conn.ws.CloseNow()
	defer conn.end(nil)

	output := newInbox()
	var alive sync.WaitGroup
	alive.Go(func() {
		err := receiveOutput(conn, output)
		output.close(err)
		conn.end(err)
	})
	alive.Go(func() { conn.beat(clientBeat) })
	if s.Stdin != nil {
		go sendInput(conn, s.Stdin)
	}
	if s.Resize != nil {
		alive.Go(func() { sendSizes(conn, s.Resize) })
	}
	code, err := printOutput(conn, output, s)
	if err == nil {
		conn.ws.Close(websocket.StatusNormalClosure, "")
	}
	conn.end(nil)
	conn.ws.CloseNow()
	alive.Wait()
	return code, whyLost(ctx, err)
}

// whyLost keeps what the supervisor or our own output said; anything else
// means that nobody knows what became of the command.
func whyLost(ctx context.Context, err error) error {
	var refused *Error
	var pipe errPipe
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &pipe):
		return pipe.error
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrResultUnknown, context.Cause(ctx))
	}
	return fmt.Errorf("%w (%w)", ErrResultUnknown, err)
}

func (c *Client) openExec(ctx context.Context, worker string, r ExecRequest) (*execConn, error) {
	path, err := workerPath(worker, "exec")
	if err != nil {
		return nil, err
	}
	ws, res, err := websocket.Dial(ctx, address(path, nil), &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode != http.StatusOK {
			return nil, problemIn(res)
		}
		return nil, c.explain(ctx, err)
	}
	first, err := json.Marshal(r)
	if err == nil {
		err = ws.Write(ctx, websocket.MessageText, first)
	}
	if err != nil {
		ws.CloseNow()
		return nil, c.explain(ctx, err)
	}
	return newExecConn(ctx, ws), nil
}

// receiveOutput takes in what the server sends, up to its last frame. It
// never waits for whoever prints it.
func receiveOutput(c *execConn, output *inbox) error {
	for {
		f, err := c.receive()
		if err != nil {
			return err
		}
		switch f.kind {
		case frameStdout, frameStderr, frameExit, frameProblem:
			err = output.put(f)
		case frameCredit:
			err = c.out.give(f.credit)
		default:
			err = fmt.Errorf("exec protocol: frame of kind %d comes from the client only", f.kind)
		}
		if err != nil {
			return err
		}
	}
}

// printOutput writes what the command printed, in order, and returns how it
// ended.
func printOutput(c *execConn, output *inbox, s ExecStreams) (int, error) {
	for {
		f, err := output.next()
		if err != nil {
			return 0, err
		}
		switch f.kind {
		case frameExit:
			return f.code, nil
		case frameProblem:
			return 0, &Error{f.problem}
		case frameStdout:
			err = writeAll(s.Stdout, f.data)
		case frameStderr:
			err = writeAll(s.Stderr, f.data)
		}
		if err != nil {
			return 0, errPipe{err}
		}
		c.consumed(len(f.data))
	}
}

func writeAll(w io.Writer, p []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(p)
	return err
}

// sendInput sends what in gives, then its end. A failed read ends the input
// like its end does: the command sees no more of it.
func sendInput(c *execConn, in io.Reader) {
	io.CopyBuffer(writer{c, frameStdin}, onlyReader{in}, make([]byte, maxPayload))
	if c.ctx.Err() == nil {
		c.send(frame{kind: frameStdinEnd})
	}
}

// onlyReader hides WriteTo, which would bypass the buffer's bound.
type onlyReader struct{ io.Reader }

func sendSizes(c *execConn, sizes <-chan Size) {
	for {
		select {
		case <-c.ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok || c.send(frame{kind: frameResize, size: size}) != nil {
				return
			}
		}
	}
}
