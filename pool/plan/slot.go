// Package plan decides what the pool does next. Its functions are pure: the
// same slot, policy and time give the same answer, and nothing here reads a
// clock, draws a random number or touches the world. The loop in package pool
// folds what happened into a slot (After), asks what to do (Next), records the
// answer and only then does it.
package plan

import (
	"fmt"
	"time"

	"github.com/outpostpool/pool/providers"
)

// State is where a slot is in its life (design §4).
type State string

const (
	Absent    State = "absent"
	Creating  State = "creating"
	Preparing State = "preparing"
	Starting  State = "starting"
	Idle      State = "idle"
	Busy      State = "busy"
	Draining  State = "draining"
	Stopping  State = "stopping"
	Removing  State = "removing"
	Backoff   State = "backoff"
	Held      State = "held"
)

// Slot is a numbered place in the pool, with all that is recorded of it. It
// outlives its sandboxes and its workers.
type Slot struct {
	Num        int    `json:"num"`
	Acceptor   string `json:"acceptor"`
	Generation int    `json:"generation"` // of the current sandbox, or the last one
	Sandbox    string `json:"sandbox,omitempty"`
	// Incarnation tells a restarted sandbox from the one we launched into.
	Incarnation string    `json:"incarnation,omitempty"`
	ConfigHash  string    `json:"config_hash,omitempty"` // what the sandbox was made from
	Workspace   string    `json:"workspace,omitempty"`
	Expires     time.Time `json:"expires,omitzero"`

	State  State     `json:"state"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Goal   Goal      `json:"goal"`

	// Granted says that the pool's budget lets this slot make a sandbox.
	Granted bool `json:"granted,omitempty"`
	// Doing is the action under way: the intent. One at a time.
	Doing *Action `json:"doing,omitempty"`
	// Found says that the sandbox was looked at since this supervisor began.
	Found bool `json:"-"`

	Launches int       `json:"launches"` // launch ids used so far
	LaunchID string    `json:"launch_id,omitempty"`
	Alive    bool      `json:"alive,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Started  time.Time `json:"started,omitzero"`

	Session      string    `json:"session,omitempty"`
	SessionSince time.Time `json:"session_since,omitzero"`
	Proved       bool      `json:"proved,omitempty"` // has claimed a session once
	Served       int       `json:"served"`

	Restarts     int         `json:"restarts"`            // never goes down
	Failures     int         `json:"failures"`            // remembered ones
	FailedAt     []time.Time `json:"failed_at,omitempty"` // the newest few, remembered or not
	Owed         bool        `json:"owed,omitempty"`      // a failure that no restart has answered yet
	FailuresHere int         `json:"failures_here"`       // in a row in this sandbox, while Devin Cloud answered
	CallFailures int         `json:"call_failures"`       // of the provider, in a row
	LastExit     *Exit       `json:"last_exit,omitempty"`
	NextStart    time.Time   `json:"next_start,omitzero"` // in backoff
	Retry        time.Time   `json:"retry,omitzero"`      // not before: after a call that failed
	Cause        Cause       `json:"cause,omitempty"`     // why it is held
	Stuck        State       `json:"stuck,omitempty"`     // the state that Held interrupted
	Replacing    bool        `json:"replacing,omitempty"` // its sandbox is being replaced after failures
	Prepared     bool        `json:"prepared,omitempty"`  // this sandbox has been prepared
	Dropped      bool        `json:"dropped,omitempty"`   // gone for good: forget the slot

	// Unreachable is the provider's last non-answer. A mark, not a state.
	Unreachable string `json:"-"`
	// ClaimsAsOf is from when on readings of the claims count.
	ClaimsAsOf time.Time `json:"-"`
	// Suspended counts readings in a row that called the session suspended.
	Suspended int `json:"-"`
}

// Goal is what is wanted of a slot, and how urgently.
type Goal struct {
	Kind GoalKind `json:"kind"`
	// Now does not wait for the session.
	Now bool `json:"now,omitempty"`
	// Until is when waiting for the session ends; zero: not waiting.
	Until time.Time `json:"until,omitzero"`
	Why   string    `json:"why,omitempty"`
}

// GoalKind is what is wanted of a slot.
type GoalKind string

const (
	Serve   GoalKind = "serve"   // run a worker
	Restart GoalKind = "restart" // stop the worker, start it again in the same sandbox
	Replace GoalKind = "replace" // stop it, next generation
	Rest    GoalKind = "rest"    // stop it and stay away until undrained
	Retire  GoalKind = "retire"  // stop it and forget the slot
)

// leaves reports whether the sandbox has to go.
func (g Goal) leaves() bool { return g.Kind == Replace || g.Kind == Rest || g.Kind == Retire }

// Cause is why a slot is held.
type Cause string

const (
	CauseToken    Cause = "token"    // Devin Cloud rejects the token
	CauseProvider Cause = "provider" // the provider rejects us
	CauseConfig   Cause = "config"   // what the config asks for cannot be done
	CauseQuota    Cause = "quota"
	CauseGit      Cause = "git" // the git server rejects the credentials
)

// Exit is how a worker ended, with words for people.
type Exit struct {
	providers.Exit
	Reason string `json:"reason"`
}

// ActionKind names one thing done in the world.
type ActionKind string

const (
	Create   ActionKind = "create"
	Look     ActionKind = "look" // is the sandbox there, does the worker live
	Prepare  ActionKind = "prepare"
	Launch   ActionKind = "launch"
	Stop     ActionKind = "stop"      // TERM, grace, KILL
	StopIdle ActionKind = "stop-idle" // the stop that cannot cut a session
	Release  ActionKind = "release"   // of the claims a dead worker left
	Remove   ActionKind = "remove"
)

// Action is one thing to do for one slot. Its result comes back as Finished.
type Action struct {
	Kind       ActionKind `json:"kind"`
	Generation int        `json:"generation"`
	LaunchID   string     `json:"launch_id,omitempty"`
	Fresh      bool       `json:"fresh,omitempty"`
	Why        string     `json:"why,omitempty"`
	// Cancel ends the action under way instead of beginning one.
	Cancel bool `json:"-"`
}

// CrashLooping reports whether the slot fails again and again, and why one
// says so: crash_loop_after remembered failures, or five within an hour,
// however long each life was.
func (s Slot) CrashLooping(p Policy, now time.Time) (string, bool) {
	if s.Failures >= p.CrashLoopAfter {
		return fmt.Sprintf("%d failures, none %s apart", s.Failures, Span(p.ResetAfter)), true
	}
	if n := len(s.FailedAt); n == failuresKept && now.Sub(s.FailedAt[0]) < time.Hour {
		return fmt.Sprintf("%d failures within an hour", n), true
	}
	return "", false
}

// enter moves the slot to a state for a reason.
func (s *Slot) enter(state State, reason string, now time.Time) {
	if s.State != state {
		s.Since = now
	}
	s.State, s.Reason = state, reason
}
