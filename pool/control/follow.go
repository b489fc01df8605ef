package control

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// Waits between attempts to reach a supervisor that went away.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
)

// FollowEvents gives the events of q and goes on over restarts of the
// supervisor, without a gap or a repeat, until ctx ends or emit fails. away is
// called once each time the supervisor is lost; it may be nil. A supervisor
// that is not there at the beginning is an error.
func (c *Client) FollowEvents(ctx context.Context, q EventQuery, away func(error), emit func(Event) error) error {
	q.Follow = true
	last := ""
	return again(ctx, c, away, emit, func(ctx context.Context, emit func(Event) error) error {
		header := http.Header{}
		if last != "" {
			header.Set("Last-Event-ID", last)
		}
		return follow(ctx, c, "/v1/events", q.params(), header, "event", func(_ string, e Event) error {
			last = strconv.FormatInt(e.ID, 10)
			return emit(e)
		})
	})
}

// FollowLogs is FollowEvents for log lines. It goes on by their cursors. A
// worker of which nothing was seen before the loss begins with its tail again,
// as nothing of it can repeat.
func (c *Client) FollowLogs(ctx context.Context, q LogQuery, away func(error), emit func(LogLine) error) error {
	q.Follow = true
	q.Cursors = maps.Clone(q.Cursors)
	if q.Cursors == nil {
		q.Cursors = map[string]string{}
	}
	return again(ctx, c, away, emit, func(ctx context.Context, emit func(LogLine) error) error {
		return c.Logs(ctx, q, func(l LogLine) error {
			if l.Cursor != "" {
				q.Cursors[l.Worker] = l.Cursor
			}
			return emit(l)
		})
	})
}

// FollowPool is FollowEvents for the pool: emit gets it after each change and
// whenever the supervisor is back.
func (c *Client) FollowPool(ctx context.Context, away func(error), emit func(Pool) error) error {
	return again(ctx, c, away, emit, c.Watch)
}

// errEmit carries an error of the caller's own emit past the retries.
type errEmit struct{ error }

func (e errEmit) Unwrap() error { return e.error }

// again runs a stream anew whenever the supervisor was lost.
func again[T any](ctx context.Context, c *Client, away func(error), emit func(T) error, stream func(context.Context, func(T) error) error) error {
	wait, connected := firstRetry, false
	for {
		err := stream(ctx, func(v T) error {
			wait, connected = firstRetry, true
			if err := emit(v); err != nil {
				return errEmit{err}
			}
			return nil
		})
		var own errEmit
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrLost) || refused(err):
			if wait == firstRetry && away != nil {
				away(err)
			}
			connected = true
		case errors.Is(err, ErrNotRunning) && connected:
		default:
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, lastRetry)
		c.Close() // a kept connection leads to the supervisor that went
	}
}

// refused reports whether a supervisor answers, but not yet or no longer.
func refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeUnavailable
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
