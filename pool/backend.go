package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/pool/state"
)

var _ control.Backend = (*Supervisor)(nil)

func pid() int { return os.Getpid() }

// watchEvery keeps pictures of the pool apart.
const watchEvery = 250 * time.Millisecond

// Pool returns the pool as it is.
func (s *Supervisor) Pool(ctx context.Context) (control.Pool, error) {
	var v control.Pool
	if err := s.ask(ctx, func() { v = s.view(time.Now()) }); err != nil {
		return control.Pool{}, err
	}
	s.usage.fill(ctx, &v)
	return v, nil
}

// Watch calls emit with the pool at once, after each change and at least every
// few seconds, since ages and use change by themselves.
func (s *Supervisor) Watch(ctx context.Context, emit func(control.Pool) error) error {
	for {
		news := s.changed.wait()
		v, err := s.Pool(ctx)
		if err != nil {
			return err
		}
		if err := emit(v); err != nil {
			return err
		}
		if err := pause(ctx, watchEvery); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return errEnding
		case <-news:
		case <-time.After(5 * time.Second):
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Events emits events, oldest first, and with Follow goes on as they happen.
func (s *Supervisor) Events(ctx context.Context, q control.EventQuery, emit func(control.Event) error) error {
	worker := ""
	if q.Worker != "" {
		num, err := s.resolve(ctx, q.Worker)
		if err != nil {
			return err
		}
		worker = s.name(num)
	}
	if !s.readers.enter() {
		return errEnding
	}
	defer s.readers.leave()
	after, limit := q.After, q.Limit
	for {
		news, ending := s.changed.wait(), s.ctx.Err() != nil
		events, err := s.store.Events(worker, after, limit)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := emit(wireEvent(e)); err != nil {
				return err
			}
			after = e.ID
		}
		switch {
		case !q.Follow:
			return nil
		case ending: // that was the last of them
			return errEnding
		}
		limit = 0
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
		case <-news:
		}
	}
}

func wireEvent(e state.Event) control.Event {
	return control.Event{ID: e.ID, At: e.At, Worker: e.Worker, Kind: e.Kind, From: e.Was, To: e.Now, Reason: e.Reason, Fields: e.Fields}
}

// Sessions returns the newest sessions served, newest first.
func (s *Supervisor) Sessions(_ context.Context, limit int) ([]control.ServedSession, error) {
	rows, err := s.store.Sessions(limit)
	served := make([]control.ServedSession, 0, len(rows))
	for _, r := range rows {
		served = append(served, control.ServedSession{ID: r.ID, Worker: r.Worker, From: r.Began, To: r.Ended, End: r.Ending})
	}
	return served, err
}

// resolve finds the slot that people call web-2 or 2.
func (s *Supervisor) resolve(ctx context.Context, worker string) (int, error) {
	number := strings.TrimPrefix(worker, s.set.Name+"-")
	num, err := strconv.Atoi(number)
	var found bool
	var names []string
	if askErr := s.ask(ctx, func() {
		_, found = s.slots[num]
		for _, sl := range s.copies() {
			names = append(names, s.name(sl.Num))
		}
	}); askErr != nil {
		return 0, askErr
	}
	if err != nil || !found {
		have := "it has no workers now"
		if len(names) > 0 {
			have = "it has " + strings.Join(names[:min(len(names), 12)], ", ")
		}
		return 0, control.Fail(control.CodeNotFound, fmt.Sprintf("pool %s has no worker %q", s.set.Name, worker), have)
	}
	return num, nil
}

// change runs f on a slot in the loop and returns f's words.
func (s *Supervisor) change(ctx context.Context, worker string, f func(*slot) (string, error)) (control.Done, error) {
	num, err := s.resolve(ctx, worker)
	if err != nil {
		return control.Done{}, err
	}
	var done control.Done
	var failed error
	if err := s.ask(ctx, func() {
		sl := s.slots[num]
		switch {
		case sl == nil:
			failed = control.Fail(control.CodeNotFound, s.name(num)+" has just left the pool", "")
		case s.ending != nil:
			failed = errEnding
		default:
			done.Detail, failed = f(sl)
		}
	}); err != nil {
		return control.Done{}, err
	}
	return done, failed
}

// Restart stops a worker, after its session unless now, and starts it again.
func (s *Supervisor) Restart(ctx context.Context, worker string, a control.WorkerAction) (control.Done, error) {
	return s.change(ctx, worker, func(sl *slot) (string, error) {
		if a.Force {
			return "", control.Fail(control.CodeInvalid, "--force abandons the identity of a slot that stays unreachable", "this provider's slots are on this machine and always answer; use --now")
		}
		if leaving := s.leaving(sl); leaving != nil {
			return "", leaving
		}
		s.settle(sl, plan.Asked{Goal: s.goal(plan.Restart, a.Now, "restart asked for")})
		return s.promise(sl, "restarts"), nil
	})
}

// Drain stops a worker once its session has ended and keeps the slot empty.
func (s *Supervisor) Drain(ctx context.Context, worker string, a control.WorkerAction) (control.Done, error) {
	return s.change(ctx, worker, func(sl *slot) (string, error) {
		kind, why := plan.Rest, "drained by hand; `pool undrain` brings it back"
		if sl.Goal.Kind == plan.Retire { // leaves the pool all the same, perhaps now
			kind, why = plan.Retire, sl.Goal.Why
		}
		s.settle(sl, plan.Asked{Goal: s.goal(kind, a.Now, why)})
		return s.promise(sl, "drains"), nil
	})
}

// Undrain takes a drain back.
func (s *Supervisor) Undrain(ctx context.Context, worker string) (control.Done, error) {
	return s.change(ctx, worker, func(sl *slot) (string, error) {
		if sl.Goal.Kind != plan.Rest {
			if leaving := s.leaving(sl); leaving != nil {
				return "", leaving
			}
			return "", control.Fail(control.CodeConflict, fmt.Sprintf("it is not drained but %s", sl.State), "")
		}
		s.settle(sl, plan.Asked{Goal: plan.Goal{Kind: plan.Serve, Why: "undrained"}})
		return s.name(sl.Num) + " serves again", nil
	})
}

// leaving refuses what makes no sense for a slot on its way out.
func (s *Supervisor) leaving(sl *slot) error {
	switch sl.Goal.Kind {
	case plan.Retire:
		return control.Fail(control.CodeConflict, "it leaves: "+sl.Goal.Why, fmt.Sprintf("`pool scale %d` keeps it", len(s.slots)))
	case plan.Rest:
		return control.Fail(control.CodeConflict, "it is drained", "`pool undrain` brings it back")
	}
	return nil
}

func (s *Supervisor) goal(kind plan.GoalKind, now bool, why string) plan.Goal {
	g := plan.Goal{Kind: kind, Now: now, Why: why}
	if !now {
		g.Until = time.Now().Add(s.set.Policy.DrainLimit)
	}
	return g
}

// promise says what will happen to a slot that was asked to go, and when.
func (s *Supervisor) promise(sl *slot, verb string) string {
	name := s.name(sl.Num)
	switch {
	case sl.Session == "" || !sl.Alive:
		return fmt.Sprintf("%s %s now", name, verb)
	case sl.Goal.Now:
		return fmt.Sprintf("%s %s now and cuts off %s, served for %s", name, verb, sl.Session, plan.Span(time.Since(sl.SessionSince)))
	default:
		return fmt.Sprintf("%s %s once %s has ended, at %s at the latest", name, verb, sl.Session, sl.Goal.Until.Format(time.TimeOnly))
	}
}

// Scale sets the desired size. The same size again is no new command.
func (s *Supervisor) Scale(ctx context.Context, r control.ScaleRequest) (control.ScaleResult, error) {
	if r.Workers < 0 || r.Workers > maxWorkers {
		return control.ScaleResult{}, control.Fail(control.CodeInvalid, fmt.Sprintf("%d is not a size: 0 to %d", r.Workers, maxWorkers), "")
	}
	if r.For < 0 || r.For > 0 && r.Pin {
		return control.ScaleResult{}, control.Fail(control.CodeInvalid, "--for needs a positive duration and excludes --pin", "")
	}
	var result control.ScaleResult
	var failed error
	err := s.ask(ctx, func() {
		if s.ending != nil {
			failed = errEnding
			return
		}
		result, failed = s.scale(r, time.Now())
	})
	if err != nil {
		return control.ScaleResult{}, err
	}
	return result, failed
}

// maxWorkers is a size beyond any outpost's use; a larger one is a slip.
const maxWorkers = 10_000

func (s *Supervisor) scale(r control.ScaleRequest, now time.Time) (control.ScaleResult, error) {
	rule := control.SizeRule{Source: "scale"}
	switch {
	case r.Pin:
		rule.Source = "pin"
	case r.For > 0:
		rule.Until = now.Add(r.For)
	}
	result := control.ScaleResult{Was: s.desired, Desired: r.Workers}
	if r.Workers == s.desired && rule == s.sizeRule {
		result.Detail = fmt.Sprintf("%s already", plural(r.Workers, "worker", "workers"))
		return result, nil
	}
	encoded, err := json.Marshal(rule)
	if err != nil {
		return result, err
	}
	result.Changed = r.Workers != s.desired
	change := state.Change{Settings: map[string]string{keyDesired: strconv.Itoa(r.Workers), keySizeRule: string(encoded)}}
	if result.Changed {
		change.Events = []state.Event{{At: now, Kind: "scale", Was: strconv.Itoa(s.desired), Now: strconv.Itoa(r.Workers), Reason: fmt.Sprintf("scaled from %d to %d", s.desired, r.Workers)}}
	}
	if err := s.write(change); err != nil {
		return result, control.Fail(control.CodeUnavailable, "the size was not changed: "+err.Error(), "make room in "+s.set.StateDir)
	}
	s.desired, s.sizeRule = r.Workers, rule
	s.rebalance = true
	result.Detail = fmt.Sprintf("scaled from %d to %d", result.Was, result.Desired)
	return result, nil
}

// expireSize goes back to the configuration's size when a scale for a limited
// time is over.
func (s *Supervisor) expireSize(now time.Time) {
	if until := s.sizeRule.Until; until.IsZero() || now.Before(until) || s.ending != nil {
		return
	}
	was := s.desired
	err := s.write(state.Change{
		Settings: map[string]string{keySizeRule: ""},
		Events: []state.Event{{
			At: now, Kind: "scale", Was: strconv.Itoa(was), Now: strconv.Itoa(s.set.Workers), Reason: "the time of pool scale --for is over; the configuration's size counts again",
		}},
	})
	if err != nil {
		s.sizeRule.Until = now.Add(recordRetry) // tried again
		return
	}
	s.desired, s.sizeRule = s.set.Workers, control.SizeRule{Source: "config"}
	s.rebalance = true
}

// Down begins the end of the pool: every slot stops, after its session unless
// now, and the supervisor ends when all are gone. With Leave only the
// supervisor ends.
func (s *Supervisor) Down(ctx context.Context, r control.DownRequest) (control.Done, error) {
	var done control.Done
	err := s.ask(ctx, func() { done.Detail = s.down(r, time.Now()) })
	return done, err
}

func (s *Supervisor) down(r control.DownRequest, now time.Time) string {
	if r.Leave {
		s.ending = &r
		s.note("leave", "the supervisor leaves; the workers go on and the next `pool up` adopts them", nil)
		return "the supervisor leaves, the workers go on"
	}
	s.ending = &r
	why := "the pool goes down"
	// A failed write shows in the display; the slots' own intents are what
	// counts, and stops stay possible without a record.
	_ = s.write(state.Change{
		Settings: map[string]string{keyDown: now.Format(time.RFC3339)},
		Events:   []state.Event{{At: now, Kind: "down", Reason: why}},
	})
	for _, p := range s.copies() {
		s.settle(s.slots[p.Num], plan.Asked{Goal: s.goal(plan.Rest, r.Now, why)})
	}
	return s.view(now).Detail
}
