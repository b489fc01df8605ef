package plan

import (
	"fmt"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Event is something that happened to one slot.
type Event interface {
	fold(s *Slot, p Policy, now time.Time)
}

// After returns the slot with the event folded in. It decides nothing.
func After(s Slot, e Event, p Policy, now time.Time) Slot {
	e.fold(&s, p, now)
	return s
}

// Asked is a person's, a schedule's or the pool's word on what a slot is for.
type Asked struct{ Goal Goal }

func (e Asked) fold(s *Slot, _ Policy, now time.Time) {
	s.Goal = e.Goal
	if e.Goal.Kind != Serve {
		s.Retry = time.Time{} // do not sit out a pause before leaving
	}
	if s.State == Absent {
		s.enter(Absent, e.Goal.Why, now)
	}
}

// Granted is the pool's leave to make a sandbox.
type Granted struct{}

func (Granted) fold(s *Slot, _ Policy, _ time.Time) { s.Granted = true }

// Claimed is how the Fleet API reads a slot: the session it holds, or none.
type Claimed struct {
	Session   string    // empty: no claim
	Suspended bool      // the entry said so: believed after three readings
	AsOf      time.Time // when the question was sent
}

// suspendedReadings in a row end a session: the word has been seen for a
// moment in live ones (facts outposts.md 1.7).
const suspendedReadings = 3

func (e Claimed) fold(s *Slot, _ Policy, now time.Time) {
	if e.AsOf.Before(s.ClaimsAsOf) {
		return // older than what a stop has learnt since
	}
	if e.Suspended && e.Session == s.Session {
		if s.Suspended++; s.Suspended >= suspendedReadings {
			e.Session = ""
		}
	} else {
		s.Suspended = 0
	}
	if e.Session == s.Session {
		return
	}
	s.Session, s.SessionSince = e.Session, now
	if e.Session != "" {
		s.Proved = true
		s.Served++
	}
	if s.State == Idle || s.State == Busy {
		s.serving(now)
	}
}

// WorkerEnded says that a launched worker surely is dead.
type WorkerEnded struct {
	LaunchID string
	Exit     providers.Exit
	Roll     float64 // a random draw in [0,1) for the delay
	Crowd    int     // see Delay
}

func (e WorkerEnded) fold(s *Slot, p Policy, now time.Time) {
	if e.LaunchID != s.LaunchID || !s.Alive {
		return
	}
	s.forget(p, now)
	s.died(e.Exit, now)
	if s.stoppedByUs() {
		s.enter(Stopping, s.LastExit.Reason, now)
		return
	}
	s.fail(p, s.LastExit.Reason, e.Roll, e.Crowd, now)
}

// stoppedByUs reports whether the end of the worker is what was wanted.
func (s *Slot) stoppedByUs() bool {
	return s.State == Draining || s.State == Stopping
}

func (s *Slot) died(exit providers.Exit, now time.Time) {
	s.Alive, s.PID = false, 0
	s.LastExit = &Exit{Exit: exit}
	s.LastExit.Reason = ExitReason(*s.LastExit, now.Sub(s.Started))
}

// SandboxLost says that the sandbox surely is gone, and its worker with it.
type SandboxLost struct {
	Reason string
	Roll   float64
	Crowd  int
}

func (e SandboxLost) fold(s *Slot, p Policy, now time.Time) {
	lived := s.Alive
	if lived {
		s.died(providers.Exit{At: now}, now)
		s.LastExit.Reason = e.Reason + "; its worker " + s.LastExit.Reason
	}
	s.clearSandbox()
	if s.Goal.leaves() || !lived {
		s.enter(Absent, e.Reason, now)
		return
	}
	s.fail(p, e.Reason, e.Roll, e.Crowd, now)
}

// clearSandbox forgets the sandbox of this generation.
func (s *Slot) clearSandbox() {
	s.Sandbox, s.Incarnation, s.LaunchID, s.ConfigHash = "", "", "", ""
	s.Alive, s.PID, s.Prepared, s.FailuresHere, s.CallFailures = false, 0, false, 0, 0
	s.Expires, s.Retry = time.Time{}, time.Time{}
	s.Unreachable = ""
}

// NoAnswer says that the provider does not answer for this slot. It changes
// nothing but the display. An empty text says that it answers again.
type NoAnswer struct{ Text string }

func (e NoAnswer) fold(s *Slot, _ Policy, _ time.Time) { s.Unreachable = e.Text }

// Finished is the result of an action. OK, or a class and words.
type Finished struct {
	Action     Action
	OK         bool
	Class      providers.Class
	RetryAfter time.Duration
	Detail     string
	GitAuth    bool // prepare: the git server rejects the credentials

	Sandbox *Sandbox // create, look: what is there; nil with OK: nothing
	Worker  *Worker  // look, launch: the last launched process; nil: none
	Exit    *providers.Exit
	Session string // stop-idle: a session appeared

	Roll  float64
	Crowd int
}

// Sandbox is what the planner needs to know of a sandbox.
type Sandbox struct {
	ID, Incarnation, Workspace string
	Expires                    time.Time
}

// Worker is what the planner needs to know of a launched process.
type Worker struct {
	LaunchID string
	PID      int
	Started  time.Time
	Exit     *providers.Exit // nil: it lives
}

func (e Finished) fold(s *Slot, p Policy, now time.Time) {
	s.Doing = nil
	if e.OK {
		s.CallFailures, s.Retry, s.Unreachable = 0, time.Time{}, ""
	}
	switch e.Action.Kind {
	case Create:
		e.created(s, now)
	case Look:
		e.looked(s, p, now)
	case Prepare:
		e.prepared(s, p, now)
	case Launch:
		e.launched(s, now)
	case Stop, StopIdle:
		e.stopped(s, now)
	case Release:
		e.released(s, now)
	case Remove:
		e.removed(s, now)
	}
}

func (e Finished) created(s *Slot, now time.Time) {
	if e.OK {
		s.Sandbox, s.Incarnation = e.Sandbox.ID, e.Sandbox.Incarnation
		s.Workspace, s.Expires = e.Sandbox.Workspace, e.Sandbox.Expires
		s.Found = true
		s.enter(Preparing, "sandbox runs", now)
		return
	}
	e.callFailed(s, now)
}

// callFailed waits, or holds the slot, by the class of a provider's error.
func (e Finished) callFailed(s *Slot, now time.Time) {
	s.retryCall(e.RetryAfter, e.Roll, now)
	switch e.Class {
	case providers.Unauthorized:
		s.hold(CauseProvider, e.Detail, now)
	case providers.Invalid:
		s.hold(CauseConfig, e.Detail, now)
	case providers.Limited:
		s.hold(CauseQuota, e.Detail, now)
	default:
		s.Reason = fmt.Sprintf("%s; tries again in %s", e.Detail, Span(s.Retry.Sub(now)))
	}
}

func (s *Slot) hold(cause Cause, detail string, now time.Time) {
	if s.State != Held {
		s.Stuck = s.State
	}
	s.Cause = cause
	s.enter(Held, detail, now)
}

func (e Finished) looked(s *Slot, p Policy, now time.Time) {
	switch {
	case e.Class == providers.NotFound && !e.OK:
		s.Found = true
		SandboxLost{Reason: "the sandbox is gone", Roll: e.Roll, Crowd: e.Crowd}.fold(s, p, now)
	case !e.OK:
		s.Unreachable = e.Detail
		s.retryCall(e.RetryAfter, e.Roll, now)
	default:
		s.Found = true
		e.foundWorker(s, p, now)
		s.Sandbox, s.Incarnation = e.Sandbox.ID, e.Sandbox.Incarnation
	}
}

// foundWorker brings the record in line with what lives in the sandbox.
func (e Finished) foundWorker(s *Slot, p Policy, now time.Time) {
	w := e.Worker
	if w != nil && w.Exit == nil {
		known := s.Alive && s.LaunchID == w.LaunchID
		if !known {
			s.Started = w.Started
		}
		s.LaunchID, s.Alive, s.PID, s.Prepared = w.LaunchID, true, w.PID, true
		if !known && !s.stoppedByUs() {
			s.enter(Starting, "found alive", now)
		}
		return
	}
	if !s.Alive {
		return
	}
	if w != nil && w.LaunchID == s.LaunchID {
		WorkerEnded{LaunchID: s.LaunchID, Exit: *w.Exit, Roll: e.Roll, Crowd: e.Crowd}.fold(s, p, now)
		return
	}
	s.died(providers.Exit{At: now}, now)
	if s.stoppedByUs() {
		s.enter(Stopping, "its processes are gone", now)
		return
	}
	s.fail(p, "the sandbox restarted and its processes were lost", e.Roll, e.Crowd, now)
}

func (e Finished) prepared(s *Slot, p Policy, now time.Time) {
	switch {
	case e.OK:
		s.Prepared = true
		s.enter(Starting, "prepared", now)
	case e.GitAuth:
		s.retryCall(0, e.Roll, now)
		s.hold(CauseGit, e.Detail, now)
	case e.Class == providers.NotFound:
		s.Found = false // the sandbox may be gone: look
	case s.Goal.Kind == Serve:
		s.fail(p, e.Detail, e.Roll, e.Crowd, now)
	}
}

func (e Finished) launched(s *Slot, now time.Time) {
	if e.OK {
		// The start window counts from now: a provider may tell starts in whole
		// seconds only.
		s.Alive, s.PID, s.Started, s.Replacing = true, e.Worker.PID, now, false
		s.enter(Starting, "started; must live for the start window", now)
		return
	}
	s.Found = false // whatever happened, what lives in the sandbox is the truth
	e.callFailed(s, now)
}

func (e Finished) stopped(s *Slot, now time.Time) {
	switch {
	case e.OK && e.Exit != nil:
		if s.Alive {
			s.died(*e.Exit, now)
		}
		if e.Session != "" && s.Session == "" {
			s.Session, s.SessionSince = e.Session, now
		}
		s.enter(Stopping, s.LastExit.Reason, now)
	case e.OK: // a session came first
		if s.Session != e.Session {
			s.Session, s.SessionSince, s.Proved = e.Session, now, true
			s.Served++
		}
		s.ClaimsAsOf = now
		s.enter(Draining, "claimed "+e.Session+" as it was about to stop", now)
	default:
		s.Found = false
		s.retryCall(e.RetryAfter, e.Roll, now)
		s.Reason = e.Detail
	}
}

// releaseTries bounds how often a claim's release is tried; after that the
// claim expires by itself (facts outposts.md 1.8).
const releaseTries = 3

func (e Finished) released(s *Slot, now time.Time) {
	if e.OK || s.CallFailures+1 >= releaseTries {
		s.Session, s.SessionSince = "", now
		s.CallFailures, s.Retry = 0, time.Time{}
		return
	}
	s.retryCall(e.RetryAfter, e.Roll, now)
}

func (e Finished) removed(s *Slot, now time.Time) {
	if !e.OK && e.Class != providers.NotFound {
		e.callFailed(s, now)
		return
	}
	why := e.Action.Why
	s.clearSandbox()
	s.Granted = false
	s.enter(Absent, why, now)
}
