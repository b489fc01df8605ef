package plan

import (
	"fmt"
	"time"
)

// Next decides what to do for one slot now. It returns the slot with the
// decision in it and at most one action, which is then also in next.Doing:
// record next, then do the action. An action with Cancel set ends the one
// under way instead.
func Next(s Slot, p Policy, now time.Time) (next Slot, do []Action) {
	if s.Doing != nil {
		if s.overtaken() {
			cancel := *s.Doing
			cancel.Cancel = true
			return s, []Action{cancel}
		}
		return s, nil
	}
	// A step either acts, waits, or moves to another state; no slot passes
	// more states than there are without one of the first two.
	for range 16 {
		action, again := s.step(p, now)
		if action != nil {
			action.Generation = s.Generation
			s.Doing = action
			return s, []Action{*action}
		}
		if !again {
			break
		}
	}
	return s, nil
}

// overtaken reports whether what is under way is no longer wanted. A stop or
// a removal is never broken off: both end by themselves within a deadline.
func (s *Slot) overtaken() bool {
	switch s.Doing.Kind {
	case Create, Prepare:
		return s.Goal.leaves() && (s.Goal.Now || !s.Alive)
	case StopIdle:
		return s.Goal.Now || s.Goal.Kind == Serve
	default:
		return false
	}
}

// step makes one decision: an action, or whether the slot changed so that
// another decision follows at once.
func (s *Slot) step(p Policy, now time.Time) (action *Action, again bool) {
	if now.Before(s.Retry) {
		return nil, false
	}
	if s.Sandbox != "" && !s.Found {
		return &Action{Kind: Look, LaunchID: s.LaunchID}, false
	}
	s.forget(p, now)
	switch s.State {
	case Absent:
		return s.fromAbsent(p, now)
	case Creating:
		return s.fromCreating(now)
	case Preparing:
		return s.fromPreparing(now)
	case Starting:
		return s.fromStarting(p, now)
	case Idle, Busy:
		return nil, s.fromServing(now)
	case Draining:
		return s.fromDraining(p, now)
	case Stopping:
		return s.fromStopping(now)
	case Removing:
		return &Action{Kind: Remove, Why: s.Reason}, false
	case Backoff:
		return s.fromBackoff(p, now)
	case Held:
		return nil, s.fromHeld(p, now)
	}
	return nil, false
}

func (s *Slot) fromAbsent(p Policy, now time.Time) (*Action, bool) {
	switch s.Goal.Kind {
	case Retire:
		s.Dropped = true
		return nil, false
	case Rest:
		return nil, false
	case Replace:
		s.Replacing = true
		s.Goal = Goal{Kind: Serve, Why: s.Goal.Why}
	case Restart:
		s.Goal = Goal{Kind: Serve, Why: s.Goal.Why}
	}
	if p.Facts.TokenRejected != "" {
		s.hold(CauseToken, p.Facts.TokenRejected, now)
		return nil, false
	}
	if !s.Granted || now.Before(s.NextStart) {
		return nil, false
	}
	s.Generation++
	s.ConfigHash = p.ConfigHash
	why := s.Goal.Why
	if why == "" {
		why = "the pool wants this slot"
	}
	s.enter(Creating, why, now)
	return s.fromCreating(now)
}

func (s *Slot) fromCreating(time.Time) (*Action, bool) {
	if s.Goal.leaves() {
		// Asked for and not known to be there: removal by name settles it.
		s.State, s.Reason = Removing, s.Goal.Why
		return nil, true
	}
	return &Action{Kind: Create}, false
}

func (s *Slot) fromPreparing(now time.Time) (*Action, bool) {
	switch {
	case s.Goal.leaves():
		s.enter(Removing, s.Goal.Why, now)
		return nil, true
	case s.Prepared:
		s.enter(Starting, s.Reason, now)
		return nil, true
	}
	return &Action{Kind: Prepare}, false
}

func (s *Slot) fromStarting(p Policy, now time.Time) (*Action, bool) {
	switch {
	case s.Alive && s.Goal.Kind != Serve:
		s.enter(Draining, s.Goal.Why, now)
		return nil, true
	case s.Alive:
		if now.Sub(s.Started) < p.StartWindow {
			return nil, false
		}
		s.enter(Idle, "alive, no session", now)
		return nil, true
	case s.Goal.leaves():
		s.enter(Removing, s.Goal.Why, now)
		return nil, true
	case p.Facts.TokenRejected != "":
		s.hold(CauseToken, p.Facts.TokenRejected, now)
		return nil, false
	}
	s.Goal = Goal{Kind: Serve}
	if s.Owed {
		s.Owed = false
		s.Restarts++
	}
	s.Launches++
	s.LaunchID = fmt.Sprintf("%s-g%d-%d", s.Acceptor, s.Generation, s.Launches)
	return &Action{Kind: Launch, LaunchID: s.LaunchID}, false
}

func (s *Slot) fromServing(now time.Time) (again bool) {
	if s.Goal.Kind != Serve {
		s.enter(Draining, s.Goal.Why, now)
		return true
	}
	s.serving(now)
	return false
}

// serving enters idle or busy, by the session.
func (s *Slot) serving(now time.Time) {
	if s.Session != "" {
		s.enter(Busy, "serves "+s.Session, now)
		return
	}
	s.enter(Idle, "alive, no session", now)
}

func (s *Slot) fromDraining(p Policy, now time.Time) (*Action, bool) {
	over := !s.Goal.Until.IsZero() && !now.Before(s.Goal.Until)
	switch {
	case s.Goal.Kind == Serve:
		s.enter(Idle, "taken back", now)
		return nil, true
	case !s.Alive:
		s.enter(Stopping, s.Goal.Why, now)
		return nil, true
	case s.Goal.Now:
		s.enter(Stopping, s.Goal.Why+s.cost(now), now)
		return nil, true
	case over:
		s.enter(Stopping, "the drain limit passed"+s.cost(now), now)
		return nil, true
	case s.Session != "":
		s.Reason = s.Goal.Why
		return nil, false
	case p.Facts.NoAPI:
		s.Reason = s.Goal.Why + "; whether a session runs is unknown without a token for the Fleet API: use --now"
		return nil, false
	case !p.Facts.APIAnswers:
		s.Reason = s.Goal.Why + "; waits for Devin Cloud to say whether a session runs"
		return nil, false
	}
	s.Reason = s.Goal.Why
	return &Action{Kind: StopIdle, LaunchID: s.LaunchID, Why: s.Goal.Why}, false
}

// cost names the session that a stop cuts off.
func (s *Slot) cost(now time.Time) string {
	if s.Session == "" {
		return ""
	}
	return fmt.Sprintf("; cuts off %s after %s", s.Session, Span(now.Sub(s.SessionSince)))
}

func (s *Slot) fromStopping(now time.Time) (*Action, bool) {
	switch {
	case s.Alive:
		return &Action{Kind: Stop, LaunchID: s.LaunchID, Why: s.Reason}, false
	case s.Goal.leaves() && s.Session != "":
		return &Action{Kind: Release, Why: "its worker is gone"}, false
	case s.Goal.leaves():
		s.enter(Removing, s.Goal.Why, now)
		return nil, true
	}
	s.enter(Starting, s.Goal.Why, now)
	s.Goal = Goal{Kind: Serve}
	return nil, true
}

func (s *Slot) fromBackoff(p Policy, now time.Time) (*Action, bool) {
	wait := s.NextStart.Sub(now)
	switch {
	case s.Session != "" && (s.Goal.leaves() || wait > p.ClaimLife):
		return &Action{Kind: Release, Why: "its worker will not be back in time"}, false
	case s.Goal.leaves():
		s.enter(Removing, s.Goal.Why, now)
		return nil, true
	case p.Facts.TokenRejected != "":
		s.hold(CauseToken, p.Facts.TokenRejected, now)
		return nil, false
	case s.Goal.Kind == Restart:
		s.NextStart = now
		s.Goal = Goal{Kind: Serve, Why: s.Goal.Why}
		return nil, true
	case wait > 0:
		return nil, false
	}
	s.resume(s.Reason, now)
	return nil, true
}

// resume goes on where the slot's sandbox allows.
func (s *Slot) resume(reason string, now time.Time) {
	switch {
	case s.Sandbox == "":
		s.enter(Absent, reason, now)
	case !s.Prepared:
		s.enter(Preparing, reason, now)
	default:
		s.enter(Starting, reason, now)
	}
}

func (s *Slot) fromHeld(p Policy, now time.Time) (again bool) {
	switch {
	case s.Goal.leaves():
		s.enter(Removing, s.Goal.Why, now)
	case s.Goal.Kind == Restart:
		s.Goal = Goal{Kind: Serve, Why: s.Goal.Why}
		s.letGo("asked to try again", now)
	case s.Cause == CauseToken && p.Facts.TokenRejected != "":
		s.Reason = p.Facts.TokenRejected
		return false
	case s.Cause == CauseToken:
		s.letGo("the token is accepted again", now)
	default: // probed slowly: step does not come here before Retry
		s.letGo("tries again after: "+s.Reason, now)
	}
	return true
}

// letGo ends a hold where it began.
func (s *Slot) letGo(reason string, now time.Time) {
	stuck := s.Stuck
	s.Cause, s.Stuck = "", ""
	if stuck == Creating || stuck == Removing {
		s.enter(stuck, reason, now)
		return
	}
	s.resume(reason, now)
}

// Wake returns when Next may decide differently though nothing happens; zero:
// never.
func Wake(s Slot, p Policy, now time.Time) time.Time {
	var at time.Time
	soon := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if s.Doing != nil {
		return at
	}
	soon(s.Retry)
	switch s.State {
	case Starting:
		if s.Alive {
			soon(s.Started.Add(p.StartWindow))
		}
	case Idle, Busy:
		if s.Failures > 0 {
			soon(s.Started.Add(p.ResetAfter))
		}
	case Draining:
		soon(s.Goal.Until)
	case Backoff, Absent:
		soon(s.NextStart)
	}
	return at
}
