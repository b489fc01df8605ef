package pool

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/worker/outpost"
)

// fleet reads Devin Cloud for the whole pool: one poll serves every slot
// (facts outposts.md 2.6).
type fleet struct {
	client   *outpost.Client
	interval time.Duration
	tell     func(message)
	wake     chan struct{}
	// hurried is set while a worker is to stop after its session: a worker
	// claims again within seconds, so the end of the session must be seen
	// before that.
	hurried atomic.Bool

	mu      sync.Mutex
	served  outpost.Outpost // without an id until Devin Cloud has told it
	waiters []waiter
}

// waiter wants an answer to a question sent at or after a time.
type waiter struct {
	after  time.Time
	answer chan answer
}

type answer struct {
	queue outpost.Queue
	err   error
}

const (
	// rejectedPause is the slow probe of a rejected token.
	rejectedPause = 20 * time.Second
	// longestPause bounds the pause while Devin Cloud does not answer.
	longestPause = 30 * time.Second
	// hurriedPause is between polls while a drain waits for a session.
	hurriedPause = 500 * time.Millisecond
	// shortestPause keeps hurried polls apart.
	shortestPause = 250 * time.Millisecond
)

func newFleet(set Settings, tell func(message)) *fleet {
	return &fleet{
		client: set.Fleet, served: set.Outpost, interval: set.PollInterval,
		tell: tell, wake: make(chan struct{}, 1),
	}
}

// kick asks for a poll soon. It never blocks.
func (f *fleet) kick() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run polls until ctx ends.
func (f *fleet) run(ctx context.Context) {
	if f.client == nil {
		return
	}
	failures := 0
	for {
		queue, err := f.read(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := f.interval
		switch {
		case err == nil:
			failures = 0
			if f.hurried.Load() {
				pause = min(pause, hurriedPause)
			}
		case outpost.IsRejected(err):
			pause = rejectedPause
		default:
			failures++
			pause = max(outpost.RetryAfter(err), min(longestPause, f.interval<<min(failures-1, 4)))
		}
		f.satisfy(answer{queue, err})
		f.tell(func(s *Supervisor) { s.takeReading(queue, err) })
		if !f.sleep(ctx, pause, outpost.IsRejected(err)) {
			return
		}
	}
}

// hurry has the polls come closer together, or not.
func (f *fleet) hurry(on bool) {
	if was := f.hurried.Swap(on); on && !was {
		f.kick()
	}
}

// outpost is the queue the pool serves.
func (f *fleet) outpost() outpost.Outpost {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served
}

// read polls once, finding the outpost first where Devin Cloud was away when
// the pool started.
func (f *fleet) read(ctx context.Context) (outpost.Queue, error) {
	served := f.outpost()
	if served.ID == "" || served.Name == "" {
		found, err := f.client.Find(ctx, cmp.Or(served.ID, served.Name))
		if err != nil {
			return outpost.Queue{}, err
		}
		f.mu.Lock()
		f.served, served = found, found
		f.mu.Unlock()
	}
	return f.client.Queue(ctx, served.ID)
}

// sleep waits for the pause or a kick; while the token is rejected kicks do
// not hurry the slow probe. It reports whether to go on.
func (f *fleet) sleep(ctx context.Context, pause time.Duration, rejected bool) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	wake := f.wake
	if rejected {
		wake = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-wake:
	}
	short := time.NewTimer(min(shortestPause, pause))
	defer short.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-short.C:
		return true
	}
}

// satisfy answers those whose question the poll was late enough for. An error
// answers all: whoever waits decides.
func (f *fleet) satisfy(a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.waiters[:0]
	for _, w := range f.waiters {
		if a.err != nil || !a.queue.At.Before(w.after) {
			w.answer <- a
			continue
		}
		kept = append(kept, w)
	}
	f.waiters = kept
	if len(kept) > 0 {
		f.kick()
	}
}

// fresh returns an answer to a question sent at or after a time. Many askers
// share one poll.
func (f *fleet) fresh(ctx context.Context, after time.Time) (outpost.Queue, error) {
	if f.client == nil {
		return outpost.Queue{}, outpost.ErrNoToken
	}
	if wait := time.Until(after); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return outpost.Queue{}, ctx.Err()
		case <-timer.C:
		}
	}
	w := waiter{after, make(chan answer, 1)}
	f.mu.Lock()
	f.waiters = append(f.waiters, w)
	f.mu.Unlock()
	f.kick()
	select {
	case <-ctx.Done():
		return outpost.Queue{}, ctx.Err()
	case a := <-w.answer:
		return a.queue, a.err
	}
}

// takeReading folds one poll into the pool's facts and the slots it concerns.
func (s *Supervisor) takeReading(queue outpost.Queue, err error) {
	now := time.Now()
	switch {
	case err == nil && queue.Unreadable > 0:
		s.apiAway(fmt.Errorf("%d rows of its answer cannot be read, so who is idle is not known", queue.Unreadable), now)
	case err == nil:
		s.apiAnswered(queue, now)
	case outpost.IsRejected(err):
		s.tokenRejected(err)
	default:
		s.apiAway(err, now)
	}
}

func (s *Supervisor) apiAnswered(queue outpost.Queue, now time.Time) {
	if s.api.State != "ok" && s.api.State != "" {
		s.note("api", "Devin Cloud answers again", nil)
	}
	accepted := s.facts.TokenRejected != ""
	s.api.State, s.api.Detail, s.api.LastAnswer, s.api.StaleSince = "ok", "", queue.At, time.Time{}
	s.facts.APIAnswers, s.facts.TokenRejected = true, ""
	s.token.State, s.token.Detail = "accepted", ""
	if accepted {
		s.note("token", "the token is accepted again", nil)
		s.rebalance = true
	}
	s.reading = queue
	holders := map[string]outpost.Entry{}
	for _, e := range queue.Entries {
		if e.Claimed() && !e.Terminated() {
			holders[e.Acceptor] = e
		}
	}
	for _, sl := range s.slots {
		e, held := holders[sl.Acceptor]
		changed := e.SessionID != sl.Session || held && e.Suspended()
		if !sl.Alive && !changed {
			if accepted && sl.Doing == nil {
				s.settle(sl)
			}
			continue
		}
		s.checkDeaf(sl, queue, now)
		if changed || sl.State == plan.Draining {
			s.settle(sl, plan.Claimed{Session: e.SessionID, Suspended: held && e.Suspended(), AsOf: queue.At})
		}
	}
}

func (s *Supervisor) tokenRejected(err error) {
	s.api.State, s.api.Detail = "unauthorized", err.Error()
	s.facts.APIAnswers = false
	s.token.State, s.token.Detail = "rejected", err.Error()
	if s.facts.TokenRejected != "" {
		return
	}
	s.facts.TokenRejected = "Devin Cloud rejects the token; starts again by itself once it is accepted"
	s.note("token", err.Error(), map[string]string{"source": s.set.TokenSource})
	for _, sl := range s.slots {
		if !sl.Alive && sl.Doing == nil {
			s.settle(sl)
		}
	}
}

func (s *Supervisor) apiAway(err error, now time.Time) {
	if s.api.State == "stale" {
		s.api.Detail = err.Error()
		return
	}
	s.api.State, s.api.Detail, s.api.StaleSince = "stale", err.Error(), now
	s.facts.APIAnswers = false
	s.note("api", "Devin Cloud does not answer; sessions are shown as last known: "+err.Error(), nil)
}

// checkDeaf marks a slot that stays idle though a session it could claim waits
// (design §7), and restarts its worker once per such session.
func (s *Supervisor) checkDeaf(sl *slot, queue outpost.Queue, now time.Time) {
	sl.deaf = ""
	if s.set.DeafAfter <= 0 || sl.State != plan.Idle || sl.Session != "" || now.Sub(sl.Since) < s.set.DeafAfter {
		return
	}
	for _, e := range queue.Claimable(s.fleet.outpost().Platform) {
		waited := now.Sub(e.Created)
		if e.Updated.After(e.Created) {
			waited = now.Sub(e.Updated)
		}
		if waited < s.set.DeafAfter {
			continue
		}
		sl.deaf = fmt.Sprintf("idle though %s has waited %s", e.SessionID, plan.Span(waited))
		key := strconv.Itoa(sl.Num) + " " + e.SessionID
		if !s.deafAsked[key] && len(s.deafAsked) < 10_000 {
			s.deafAsked[key] = true
			s.settle(sl, plan.Asked{Goal: plan.Goal{Kind: plan.Restart, Until: now.Add(s.set.Policy.DrainLimit), Why: "deaf: " + sl.deaf}})
		}
		return
	}
}
