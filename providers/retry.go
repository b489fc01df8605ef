package providers

import (
	"context"
	"math/rand/v2"
	"time"
)

// RetryOptions say how often and how fast; zero values are the defaults.
type RetryOptions struct {
	Attempts int           // in all; 4
	Initial  time.Duration // first pause, doubled each time; 250 ms
	Max      time.Duration // longest pause; 10 s. A Limited error that asks for more is given back at once
	// Sleep and Rand stand in for the clock and for chance. Rand returns a
	// number in [0, 1); it moves each pause by up to a quarter.
	Sleep func(ctx context.Context, d time.Duration) error
	Rand  func() float64
}

// Retry wraps a provider and all it returns. Transient and Limited errors are
// tried again, for a Limited one after the time it asks for. An Unknown one is
// tried again only where the contract makes the call idempotent: Create by
// name, Launch by id, Remove, and all that only looks. An Exec or a TERM that
// may have happened is never repeated. The last error is given back as it is.
func Retry(p Provider, o RetryOptions) Provider {
	if o.Attempts <= 0 {
		o.Attempts = 4
	}
	if o.Initial <= 0 {
		o.Initial = 250 * time.Millisecond
	}
	if o.Max <= 0 {
		o.Max = 10 * time.Second
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return &aroundProvider{p, o.around}
}

func (o RetryOptions) around(ctx context.Context, c call, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause, again := o.again(c.repeat, attempt, err)
		if !again || !fits(ctx, pause) || o.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// again decides whether a call is made once more after its attempt failed with
// err, and after what pause.
func (o RetryOptions) again(r repeat, attempt int, err error) (time.Duration, bool) {
	if attempt >= o.Attempts || r == repeatNever {
		return 0, false
	}
	switch ClassOf(err) {
	case Transient, Limited:
	case Unknown:
		if r != repeatAlways {
			return 0, false
		}
	default:
		return 0, false
	}
	if asked := RetryAfter(err); asked > 0 {
		return asked, asked <= o.Max
	}
	pause := o.Initial
	for range attempt - 1 {
		pause = min(2*pause, o.Max)
	}
	pause = min(pause, o.Max)
	return time.Duration(float64(pause) * (0.75 + 0.5*o.Rand())), true
}

// fits tells whether a pause ends before ctx does.
func fits(ctx context.Context, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > pause
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
