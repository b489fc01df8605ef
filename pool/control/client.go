package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ErrNotRunning says that no supervisor answers on the socket.
var ErrNotRunning = errors.New("the pool is not running")

// ErrLost says that the connection ended before the answer was whole.
var ErrLost = errors.New("connection lost")

// Client talks to a running supervisor. It has the methods of a Backend, so
// that whatever works on one works on the other. Its errors are *Error when
// the supervisor refused, ErrNotRunning when none is there, ErrLost when it
// went away in the middle. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

var _ Backend = (*Client)(nil)

// Dial makes a client of the supervisor behind the socket. It connects at the
// first request.
func Dial(socketPath string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, socketPath)
		},
		MaxIdleConns:       4,
		IdleConnTimeout:    30 * time.Second,
		DisableCompression: true,
	}
	return &Client{socket: socketPath, http: &http.Client{Transport: transport}}
}

// Close gives back idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// address is the URL of an escaped path. The host is only a name: the socket
// decides who answers.
func address(path string, query url.Values) string {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return "http://" + host + path
}

// do sends a request and returns an answer of status 200, or the error.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	return c.doWith(ctx, method, path, query, body, nil)
}

func (c *Client) doWith(ctx context.Context, method, path string, query url.Values, body any, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, address(path, query), content)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, problemIn(res)
	}
	return res, nil
}

// explain gives a transport's error the words of this package.
func (c *Client) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case nobodyThere(err):
		return fmt.Errorf("%w (nobody answers on %s); start it with: pool up", ErrNotRunning, c.socket)
	}
	var failed *url.Error // its text repeats our made-up address
	if errors.As(err, &failed) {
		err = failed.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("connect to the supervisor on %s: %w", c.socket, op.Err)
	}
	return fmt.Errorf("%w to the supervisor on %s: %w", ErrLost, c.socket, err)
}

// problemIn reads the Problem of an answer that is not a success.
func problemIn(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	e := &Error{}
	if json.Unmarshal(body, &e.Problem) != nil || e.Code == "" {
		e = Fail(CodeInternal, fmt.Sprintf("the supervisor answered %s without saying why", res.Status), "is something else on this socket?")
	}
	e.Status = res.StatusCode
	return e
}

// ask sends a request and decodes the one JSON value of its answer.
func ask[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (T, error) {
	var v T
	res, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return v, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		var zero T
		return zero, c.explain(ctx, fmt.Errorf("the answer cannot be read: %w", err))
	}
	io.Copy(io.Discard, io.LimitReader(res.Body, 1<<10)) // so that the connection is used again
	return v, nil
}

// Version tells which program answers.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return ask[Version](ctx, c, http.MethodGet, "/v1/version", nil, nil)
}

// Health returns nil when the supervisor's loop answers.
func (c *Client) Health(ctx context.Context) error {
	_, err := ask[map[string]string](ctx, c, http.MethodGet, "/healthz", nil, nil)
	return err
}

// Pool returns the pool as it is now.
func (c *Client) Pool(ctx context.Context) (Pool, error) {
	return ask[Pool](ctx, c, http.MethodGet, "/v1/pool", nil, nil)
}

// Sessions lists sessions served, newest first; a limit of 0 is all kept.
func (c *Client) Sessions(ctx context.Context, limit int) ([]ServedSession, error) {
	query := url.Values{}
	setInt(query, "limit", int64(limit))
	return ask[[]ServedSession](ctx, c, http.MethodGet, "/v1/sessions", query, nil)
}

// Scale asks for a size.
func (c *Client) Scale(ctx context.Context, r ScaleRequest) (ScaleResult, error) {
	return ask[ScaleResult](ctx, c, http.MethodPost, "/v1/scale", nil, r)
}

// Restart restarts a worker once its session has ended, or now.
func (c *Client) Restart(ctx context.Context, worker string, a WorkerAction) (Done, error) {
	return c.act(ctx, worker, "restart", a)
}

// Drain lets a worker's session end and stops it then, or now.
func (c *Client) Drain(ctx context.Context, worker string, a WorkerAction) (Done, error) {
	return c.act(ctx, worker, "drain", a)
}

// Undrain takes a drain back.
func (c *Client) Undrain(ctx context.Context, worker string) (Done, error) {
	return c.act(ctx, worker, "undrain", struct{}{})
}

func (c *Client) act(ctx context.Context, worker, verb string, body any) (Done, error) {
	path, err := workerPath(worker, verb)
	if err != nil {
		return Done{}, err
	}
	return ask[Done](ctx, c, http.MethodPost, path, nil, body)
}

// workerPath names a worker in a path. A name that is no path element would
// silently mean another route.
func workerPath(worker, verb string) (string, error) {
	if worker == "" || worker == "." || worker == ".." {
		return "", Fail(CodeNotFound, fmt.Sprintf("no worker is called %q", worker), "pool status lists them")
	}
	return "/v1/workers/" + url.PathEscape(worker) + "/" + verb, nil
}

// Down begins the pool's end and returns at once.
func (c *Client) Down(ctx context.Context, r DownRequest) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "/v1/down", nil, r)
}

// Events gives the events of q, oldest first. With Follow it ends with ErrLost
// when the supervisor goes; FollowEvents goes on.
func (c *Client) Events(ctx context.Context, q EventQuery, emit func(Event) error) error {
	if q.Follow {
		return follow(ctx, c, "/v1/events", q.params(), nil, "event", func(_ string, e Event) error { return emit(e) })
	}
	list, err := ask[[]Event](ctx, c, http.MethodGet, "/v1/events", q.params(), nil)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := emit(e); err != nil {
			return err
		}
	}
	return nil
}

// Watch calls emit with the pool at once and after each change. It ends with
// ErrLost when the supervisor goes; FollowPool goes on.
func (c *Client) Watch(ctx context.Context, emit func(Pool) error) error {
	return follow(ctx, c, "/v1/pool", url.Values{"watch": {"true"}}, nil, "pool", func(_ string, p Pool) error { return emit(p) })
}

// Logs gives the lines of q. With Follow it ends with ErrLost when the
// supervisor goes; FollowLogs goes on.
func (c *Client) Logs(ctx context.Context, q LogQuery, emit func(LogLine) error) error {
	if q.Follow {
		return follow(ctx, c, "/v1/logs", q.params(), nil, "log", func(_ string, l LogLine) error { return emit(l) })
	}
	res, err := c.do(ctx, http.MethodGet, "/v1/logs", q.params(), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	d := json.NewDecoder(res.Body)
	for {
		row := logRow{LogLine: &LogLine{}}
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return c.explain(ctx, err)
		}
		if row.Problem != nil {
			return &Error{*row.Problem}
		}
		if err := emit(*row.LogLine); err != nil {
			return err
		}
	}
}

// follow reads the events named name of a stream until it or ctx ends.
func follow[T any](ctx context.Context, c *Client, path string, query url.Values, header http.Header, name string, emit func(id string, v T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the body of a stream ends with its request
	res, err := c.doWith(ctx, http.MethodGet, path, query, nil, header)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	events := newEventReader(res.Body)
	for {
		e, err := events.next()
		if err != nil {
			return c.explain(ctx, err)
		}
		switch e.name {
		case "problem":
			failed := &Error{}
			if err := json.Unmarshal(e.data, &failed.Problem); err != nil {
				return c.explain(ctx, err)
			}
			failed.Status = statusOf[failed.Code]
			return failed
		case name:
			var v T
			if err := json.Unmarshal(e.data, &v); err != nil {
				return c.explain(ctx, fmt.Errorf("event %s: %w", strconv.Quote(name), err))
			}
			if err := emit(e.id, v); err != nil {
				return err
			}
		}
	}
}
