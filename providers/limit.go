package providers

import (
	"context"
	"sync"
	"time"
)

// LimitOptions bound what one vendor is asked for; zero means no bound.
type LimitOptions struct {
	Calls   int           // under way at once. Exec and Wait are not counted: they last as long as what they wait for
	Creates int           // creates under way at once, within Calls
	Every   time.Duration // least time between the starts of two calls, Exec and Wait among them
	// Sleep and Now stand in for the clock.
	Sleep func(ctx context.Context, d time.Duration) error
	Now   func() time.Time
}

// Limit wraps a provider and all it returns. A call waits for its turn; when
// its context ends first, it has not happened: class Transient.
func Limit(p Provider, o LimitOptions) Provider {
	l := &limiter{every: o.Every, sleep: o.Sleep, now: o.Now}
	if l.sleep == nil {
		l.sleep = sleep
	}
	if l.now == nil {
		l.now = time.Now
	}
	if o.Calls > 0 {
		l.calls = make(chan struct{}, o.Calls)
	}
	if o.Creates > 0 {
		l.creates = make(chan struct{}, o.Creates)
	}
	return &aroundProvider{p, l.around}
}

type limiter struct {
	calls, creates chan struct{} // nil: no bound
	every          time.Duration
	sleep          func(ctx context.Context, d time.Duration) error
	now            func() time.Time

	mu   sync.Mutex
	next time.Time // earliest start of the next call
}

func (l *limiter) around(ctx context.Context, c call, do func() error) error {
	// A create first waits among creates, so that it holds up no other call.
	if c.op == "create" {
		if err := enter(ctx, l.creates); err != nil {
			return notHappened(c, err)
		}
		defer leave(l.creates)
	}
	if !c.long {
		if err := enter(ctx, l.calls); err != nil {
			return notHappened(c, err)
		}
		defer leave(l.calls)
	}
	if err := l.pace(ctx); err != nil {
		return notHappened(c, err)
	}
	return do()
}

// pace gives out start times at least every apart.
func (l *limiter) pace(ctx context.Context) error {
	if l.every <= 0 {
		return ctx.Err()
	}
	l.mu.Lock()
	now := l.now()
	if l.next.Before(now) {
		l.next = now
	}
	pause := l.next.Sub(now)
	l.next = l.next.Add(l.every)
	l.mu.Unlock()
	if pause == 0 {
		return ctx.Err()
	}
	return l.sleep(ctx, pause)
}

func enter(ctx context.Context, room chan struct{}) error {
	if room == nil {
		return ctx.Err()
	}
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func leave(room chan struct{}) {
	if room != nil {
		<-room
	}
}

func notHappened(c call, err error) error {
	return &Error{Class: Transient, Op: c.op + " " + c.name, Err: err, Hint: "it waited for its turn and was not asked for"}
}
