package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// execConn is one end of an exec's connection: frames out under a window,
// signs of life, and the reason of its end.
type execConn struct {
	ws   *websocket.Conn
	ctx  context.Context
	end  context.CancelCauseFunc
	out  *window
	in   []byte // of receive; one message fits
	mu   sync.Mutex
	owed int // consumed, credit not yet sent
}

func newExecConn(ctx context.Context, ws *websocket.Conn) *execConn {
	ctx, end := context.WithCancelCause(ctx)
	ws.SetReadLimit(maxPayload + 1)
	return &execConn{ws: ws, ctx: ctx, end: end, out: newWindow(), in: make([]byte, maxPayload+2)}
}

func (c *execConn) send(f frame) error {
	return c.ws.Write(c.ctx, websocket.MessageBinary, f.encode())
}

// finish sends the last frame and closes in good order. A client that does not
// take it learns from the cut that it does not know the result.
func (c *execConn) finish(last frame) {
	ctx, cancel := context.WithTimeout(c.ctx, farewell)
	defer cancel()
	if c.ws.Write(ctx, websocket.MessageBinary, last.encode()) == nil {
		c.ws.Close(websocket.StatusNormalClosure, "")
	}
}

// receive waits for a frame. Its data is valid until the next receive.
func (c *execConn) receive() (frame, error) {
	kind, r, err := c.ws.Reader(c.ctx)
	if err != nil {
		return frame{}, err
	}
	n, err := io.ReadFull(r, c.in)
	// Compared, not unwrapped: a connection cut in mid-message wraps the same.
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		return frame{}, fmt.Errorf("exec protocol: a message that cannot be read whole: %w", err)
	}
	if kind != websocket.MessageBinary {
		return frame{}, errors.New("exec protocol: a text message where a frame belongs")
	}
	return decodeFrame(c.in[:n])
}

// consumed gives credit back, in steps large enough to cost little.
func (c *execConn) consumed(n int) {
	c.mu.Lock()
	c.owed += n
	give := 0
	if c.owed >= windowSize/4 {
		give, c.owed = c.owed, 0
	}
	c.mu.Unlock()
	if give > 0 {
		c.send(frame{kind: frameCredit, credit: give}) // a failure shows in receive
	}
}

// beat pings every interval until the connection ends, and ends it when no
// answer comes within twice that: only then is the other end surely not there.
func (c *execConn) beat(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(c.ctx, 2*every)
		err := c.ws.Ping(ctx)
		cancel()
		if err != nil {
			c.end(fmt.Errorf("no sign of life for %v", 2*every))
			return
		}
	}
}

// writer sends what is written as frames of one kind, as the window allows.
type writer struct {
	conn *execConn
	kind frameKind
}

func (w writer) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := w.conn.out.take(w.conn.ctx, min(len(p)-sent, maxPayload))
		if err != nil {
			return sent, err
		}
		if err := w.conn.send(frame{kind: w.kind, data: p[sent : sent+n]}); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}
