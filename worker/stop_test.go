package worker

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outpostpool/pool/providers"
)

// fakeProcess obeys signals as a tree would; it ends only while it is running.
type fakeProcess struct {
	noPause  bool                     // STOP is impossible
	endAfter time.Duration            // after TERM, while not standing still; below 0: ignores TERM
	failing  map[providers.Signal]int // so many failures first

	mu      sync.Mutex
	sent    []providers.Signal
	paused  bool
	asked   bool
	ended   chan struct{}
	exit    providers.Exit
	onTerm  func()
	waitErr int
}

func newFake() *fakeProcess {
	return &fakeProcess{ended: make(chan struct{}), failing: map[providers.Signal]int{}}
}

func (p *fakeProcess) Info(context.Context) (providers.ProcInfo, error) {
	return providers.ProcInfo{LaunchID: "l1"}, nil
}
func (p *fakeProcess) Output(context.Context, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}
func (p *fakeProcess) Wait(ctx context.Context) (providers.Exit, error) {
	p.mu.Lock()
	fail := p.waitErr > 0
	p.waitErr--
	p.mu.Unlock()
	if fail {
		return providers.Exit{}, providers.Errorf(providers.Unknown, "wait", "connection lost")
	}
	select {
	case <-p.ended:
		return p.exit, nil
	case <-ctx.Done():
		return providers.Exit{}, ctx.Err()
	}
}

func (p *fakeProcess) end(exit providers.Exit) {
	select {
	case <-p.ended:
	default:
		p.exit = exit
		close(p.ended)
	}
}

func (p *fakeProcess) Signal(ctx context.Context, s providers.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing[s] > 0 {
		p.failing[s]--
		return providers.Errorf(providers.Transient, "signal", "try again")
	}
	if p.noPause && (s == providers.STOP || s == providers.CONT) {
		return providers.Errorf(providers.Invalid, "signal", "not possible here")
	}
	p.sent = append(p.sent, s)
	switch s {
	case providers.STOP:
		p.paused = true
	case providers.CONT:
		p.paused = false
	case providers.TERM:
		p.asked = true
		if p.onTerm != nil {
			p.onTerm()
		}
	case providers.KILL:
		p.end(providers.Exit{Code: 137, Signal: 9, Known: true})
	}
	if p.asked && !p.paused && p.endAfter >= 0 {
		p.asked = false
		time.AfterFunc(p.endAfter, func() { p.end(providers.Exit{Code: 143, Signal: 15, Known: true}) })
	}
	return nil
}

func (p *fakeProcess) signals() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var words []string
	for _, s := range p.sent {
		words = append(words, string(s))
	}
	return strings.Join(words, " ")
}

func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*fakeProcess)
		ending  Ending
		signals string
		takes   time.Duration
	}{
		"obeys":             {func(p *fakeProcess) { p.endAfter = 5 * time.Second }, EndedItself, "TERM CONT", 5 * time.Second},
		"stands still":      {func(p *fakeProcess) { p.paused = true }, EndedItself, "TERM CONT", 0},
		"ignores TERM":      {func(p *fakeProcess) { p.endAfter = -1 }, WasKilled, "TERM CONT KILL", 30 * time.Second},
		"ended before":      {func(p *fakeProcess) { p.end(providers.Exit{Code: 3, Known: true}) }, EndedBefore, "", 0},
		"no CONT":           {func(p *fakeProcess) { p.noPause = true }, EndedItself, "TERM", 0},
		"TERM is lost once": {func(p *fakeProcess) { p.failing[providers.TERM] = 1 }, EndedItself, "TERM CONT", time.Second},
		"KILL is lost once": {func(p *fakeProcess) { p.endAfter, p.failing[providers.KILL] = -1, 1 }, WasKilled, "TERM CONT KILL", 40 * time.Second},
		"Wait fails":        {func(p *fakeProcess) { p.waitErr = 3 }, EndedItself, "TERM CONT", 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFake()
				c.prepare(p)
				start := time.Now()
				got, err := Stop(t.Context(), p, 30*time.Second)
				if err != nil || got.Ending != c.ending || !got.Known || p.signals() != c.signals {
					t.Errorf("got %+v, %v; signals %q", got, err, p.signals())
				}
				if took := time.Since(start); took < c.takes || took > c.takes+time.Second {
					t.Errorf("took %s, want %s", took, c.takes)
				}
			})
		})
	}
}

func TestCancelledStopKillsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake()
		p.endAfter = -1
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := Stop(ctx, p, 30*time.Second)
		if !providers.Is(err, providers.Unknown) || strings.Contains(p.signals(), "KILL") {
			t.Errorf("%v; signals %q", err, p.signals())
		}
	})
}

// fakeClaims answers from the moment now, less lag.
type fakeClaims struct {
	lag     time.Duration
	slow    time.Duration
	claimed func(asOf time.Time) string
	err     error
	broken  bool // panics
	reads   int
}

func (c *fakeClaims) ReadClaims(ctx context.Context) (Claims, error) {
	c.reads++
	if c.broken {
		panic("claims")
	}
	asOf := time.Now().Add(-c.lag)
	select {
	case <-time.After(c.slow):
	case <-ctx.Done():
		return Claims{}, ctx.Err()
	}
	session := ""
	if c.claimed != nil {
		session = c.claimed(asOf)
	}
	return Claims{Session: session, AsOf: asOf}, c.err
}

func TestStopIdle(t *testing.T) {
	type test struct {
		process func(*fakeProcess)
		claims  func(start time.Time) *fakeClaims
		outcome Outcome
		session string
		signals string
	}
	from := func(delay time.Duration) func(time.Time) *fakeClaims {
		return func(start time.Time) *fakeClaims {
			return &fakeClaims{claimed: func(asOf time.Time) string {
				if asOf.Sub(start) >= delay {
					return "devin-1"
				}
				return ""
			}}
		}
	}
	idle := func(time.Time) *fakeClaims { return &fakeClaims{} }
	for name, c := range map[string]test{
		"idle":                   {nil, idle, OutcomeStopped, "", "STOP TERM CONT"},
		"idle, ignores TERM":     {func(p *fakeProcess) { p.endAfter = -1 }, idle, OutcomeStopped, "", "STOP TERM CONT KILL"},
		"busy":                   {nil, from(0), OutcomeBusy, "devin-1", "STOP CONT"},
		"claim was on its way":   {nil, from(1500 * time.Millisecond), OutcomeBusy, "devin-1", "STOP CONT"},
		"stale answers, then ok": {nil, func(time.Time) *fakeClaims { return &fakeClaims{lag: 5 * time.Second} }, OutcomeStopped, "", "STOP TERM CONT"},
		"only stale answers":     {nil, func(time.Time) *fakeClaims { return &fakeClaims{lag: time.Hour} }, OutcomeUnknown, "", "STOP CONT"},
		"API fails":              {nil, func(time.Time) *fakeClaims { return &fakeClaims{err: errors.New("503")} }, OutcomeUnknown, "", "STOP CONT"},
		"API hangs":              {nil, func(time.Time) *fakeClaims { return &fakeClaims{slow: time.Hour} }, OutcomeUnknown, "", "STOP CONT"},
		"STOP fails":             {func(p *fakeProcess) { p.failing[providers.STOP] = 1 }, idle, OutcomeUnknown, "", "CONT"},
		"CONT fails twice":       {func(p *fakeProcess) { p.failing[providers.CONT] = 2 }, from(0), OutcomeBusy, "devin-1", "STOP CONT"},
		"ended before":           {func(p *fakeProcess) { p.end(providers.Exit{Known: true}) }, idle, OutcomeStopped, "", ""},
		"no pause, idle":         {func(p *fakeProcess) { p.noPause = true }, idle, OutcomeStopped, "", "TERM"},
		"no pause, busy":         {func(p *fakeProcess) { p.noPause = true }, from(0), OutcomeBusy, "devin-1", ""},
		"no pause, slips in": {func(p *fakeProcess) { p.noPause, p.endAfter = true, -1 }, from(500 * time.Millisecond),
			OutcomeStopped, "devin-1", "TERM KILL"},
		"no pause, API fails": {func(p *fakeProcess) { p.noPause = true },
			func(time.Time) *fakeClaims { return &fakeClaims{err: errors.New("503")} }, OutcomeUnknown, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFake()
				if c.process != nil {
					c.process(p)
				}
				start := time.Now()
				got, err := StopIdle(t.Context(), p, 30*time.Second, c.claims(start))
				if got.Outcome != c.outcome || got.Session != c.session || p.signals() != c.signals {
					t.Errorf("got %+v, %v; signals %q", got, err, p.signals())
				}
				if (err != nil) != (c.outcome == OutcomeUnknown) || got.Reason == "" {
					t.Errorf("error %v, reason %q", err, got.Reason)
				}
				if p.paused {
					t.Error("left standing still")
				}
				if got.Outcome == OutcomeStopped && strings.HasSuffix(c.signals, "KILL") && time.Since(start) < 30*time.Second {
					t.Error("killed before the grace period passed")
				}
			})
		})
	}
}

// The answer that decides is at least two seconds newer than the STOP.
func TestStopIdleWaitsForAFreshAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake()
		var asked time.Duration
		start := time.Now()
		p.onTerm = func() { asked = time.Since(start) }
		if _, err := StopIdle(t.Context(), p, time.Second, &fakeClaims{}); err != nil {
			t.Fatal(err)
		}
		if asked < settle {
			t.Errorf("TERM after %s", asked)
		}
	})
}

func TestStopIdleNeverLeavesAWorkerStandingStill(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newFake()
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			got, err := StopIdle(ctx, p, time.Second, &fakeClaims{slow: time.Hour})
			if got.Outcome != OutcomeUnknown || err == nil || p.signals() != "STOP CONT" {
				t.Errorf("got %+v, %v; signals %q", got, err, p.signals())
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newFake()
			defer func() {
				if recover() == nil || p.signals() != "STOP CONT" {
					t.Errorf("signals %q", p.signals())
				}
			}()
			StopIdle(t.Context(), p, time.Second, &fakeClaims{broken: true})
		})
	})
	t.Run("cancelled in the grace period", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newFake()
			p.endAfter = -1
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			got, err := StopIdle(ctx, p, time.Minute, &fakeClaims{})
			if got.Outcome != OutcomeUnknown || err == nil || p.signals() != "STOP TERM CONT CONT" {
				t.Errorf("got %+v, %v; signals %q", got, err, p.signals())
			}
		})
	})
}
