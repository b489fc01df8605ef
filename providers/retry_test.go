package providers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func errOf(c Class) error { return Errorf(c, "do", "because") }

func TestRetryKnowsWhatMayBeRepeated(t *testing.T) {
	every := map[string]func(Sandbox, Process, Provider) error{
		"create": func(_ Sandbox, _ Process, p Provider) error { _, err := p.Create(t.Context(), Spec{}); return err },
		"open":   func(_ Sandbox, _ Process, p Provider) error { _, err := p.Open(t.Context(), "a"); return err },
		"list":   func(_ Sandbox, _ Process, p Provider) error { _, err := p.List(t.Context(), "a"); return err },
		"info":   func(s Sandbox, _ Process, _ Provider) error { _, err := s.Info(t.Context()); return err },
		"launch": func(s Sandbox, _ Process, _ Provider) error {
			_, err := s.Launch(t.Context(), "L", Cmd{})
			return err
		},
		"process":   func(s Sandbox, _ Process, _ Provider) error { _, err := s.Process(t.Context()); return err },
		"remove":    func(s Sandbox, _ Process, _ Provider) error { return s.Remove(t.Context(), true) },
		"wait":      func(_ Sandbox, q Process, _ Provider) error { _, err := q.Wait(t.Context()); return err },
		"proc info": func(_ Sandbox, q Process, _ Provider) error { _, err := q.Info(t.Context()); return err },
		"output":    func(_ Sandbox, q Process, _ Provider) error { _, err := q.Output(t.Context(), 0); return err },
		"KILL":      func(_ Sandbox, q Process, _ Provider) error { return q.Signal(t.Context(), KILL) },
		"TERM":      func(_ Sandbox, q Process, _ Provider) error { return q.Signal(t.Context(), TERM) },
		"exec":      func(s Sandbox, _ Process, _ Provider) error { _, err := s.Exec(t.Context(), Cmd{}); return err },
		"exec with stdin": func(s Sandbox, _ Process, _ Provider) error {
			_, err := s.Exec(t.Context(), Cmd{Stdin: strings.NewReader("x")})
			return err
		},
	}
	for _, class := range []Class{NotFound, Unauthorized, Invalid, Conflict, Limited, BadSnapshot, Transient, Unknown} {
		for name, do := range every {
			again := class == Transient || class == Limited || class == Unknown
			switch name {
			case "exec with stdin":
				again = false
			case "exec", "TERM":
				again = again && class != Unknown
			}
			f := &fake{}
			p := Retry(f, RetryOptions{Sleep: func(context.Context, time.Duration) error { return nil }})
			s, q := handles(p)
			f.calls, f.errs = 0, []error{errOf(class)}
			err := do(s, q, p)
			if want := map[bool]int{true: 2, false: 1}[again]; f.calls != want || (err == nil) != again {
				t.Errorf("%s after %s: %d calls, %v; want %d calls", name, class, f.calls, err, want)
			}
		}
	}
}

func TestRetryPauses(t *testing.T) {
	half := func() float64 { return 0.5 }
	o := RetryOptions{Attempts: 6, Initial: time.Second, Max: 5 * time.Second, Rand: half}
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 5: 5 * time.Second} {
		if got, again := o.again(repeatAlways, attempt, errOf(Transient)); got != want || !again {
			t.Errorf("attempt %d: %v, %v; want %v", attempt, got, again, want)
		}
	}
	if _, again := o.again(repeatAlways, 6, errOf(Transient)); again {
		t.Error("a seventh attempt of six")
	}
	for asked, again := range map[time.Duration]bool{3 * time.Second: true, time.Hour: false} {
		err := &Error{Class: Limited, Op: "do", RetryAfter: asked}
		if got, ok := o.again(repeatUndone, 1, err); got != asked || ok != again {
			t.Errorf("asked for %v: %v, %v; want %v", asked, got, ok, again)
		}
	}
	for chance, want := range map[float64]time.Duration{0: 750 * time.Millisecond, 0.999999: 1250 * time.Millisecond} {
		o.Rand = func() float64 { return chance }
		if got, _ := o.again(repeatAlways, 1, errOf(Transient)); (got - want).Abs() > time.Millisecond {
			t.Errorf("chance %v: %v, want %v", chance, got, want)
		}
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		for range 100 {
			f.errs = append(f.errs, errOf(Transient))
		}
		p := Retry(f, RetryOptions{Attempts: 100, Initial: time.Second, Max: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := p.Open(ctx, "a")
		if !Is(err, Transient) || f.calls > 5 || time.Since(began) > 3500*time.Millisecond {
			t.Errorf("%v after %d calls and %v", err, f.calls, time.Since(began))
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		f.calls, f.errs = 0, []error{context.Canceled}
		if _, err := p.Open(ctx, "a"); !errors.Is(err, context.Canceled) || f.calls != 1 {
			t.Errorf("cancelled: %v after %d calls", err, f.calls)
		}
	})
}
