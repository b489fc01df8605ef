package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/plan"
)

// view makes the picture of the pool that people see. It runs in the loop and
// returns a copy.
func (s *Supervisor) view(now time.Time) control.Pool {
	served := s.fleet.outpost()
	v := control.Pool{
		Name: s.set.Name, UID: s.uid, Version: s.set.Version, PID: pid(), Started: s.started, Now: now,
		Provider: s.set.ProviderKind, StateDir: s.set.StateDir, ConfigFile: s.set.ConfigFile,
		Desired: s.desired, SizeRule: s.sizeRule, Pending: -1,
		Outpost: control.Outpost{ID: served.ID, Name: served.Name, Platform: served.Platform},
		API:     s.api, Token: s.token, Notes: slices.Clone(s.set.Notes),
		Workers: make([]control.Worker, 0, len(s.slots)),
	}
	if s.api.State == "ok" || !s.api.LastAnswer.IsZero() {
		v.Pending = len(s.reading.Claimable(served.Platform))
	}
	if s.unsaved != nil {
		v.Notes = append(v.Notes, "nothing can be recorded, so nothing new starts: "+s.unsaved.Error())
	}
	for _, p := range s.copies() {
		w := s.viewWorker(s.slots[p.Num], now)
		v.Workers = append(v.Workers, w)
		count(&v, p, w)
	}
	v.State, v.Detail = s.sentence(v)
	return v
}

func count(v *control.Pool, p plan.Slot, w control.Worker) {
	if p.Alive && p.State != plan.Starting {
		v.Running++
		if p.Session != "" {
			v.Busy++
		} else {
			v.Idle++
		}
	}
	if p.Provisioning() || p.State == plan.Starting && p.Alive {
		v.Provisioning++
	}
	if p.State == plan.Backoff || p.State == plan.Absent && p.Owed || w.Health == control.Broken {
		v.Broken++
	}
}

func (s *Supervisor) viewWorker(sl *slot, now time.Time) control.Worker {
	w := control.Worker{
		Name: s.name(sl.Num), Slot: sl.Num, Acceptor: sl.Acceptor,
		State: string(sl.State), Reason: sl.Reason, Since: sl.Since,
		RestartsTotal: sl.Restarts, RestartsLately: sl.Failures,
		Goal: string(sl.Goal.Kind), Generation: sl.Generation, Sandbox: sl.Sandbox, PID: sl.PID,
		Expires: sl.Expires, Workspace: sl.Workspace, Served: sl.Served,
		CPU: -1, Memory: -1, Disk: -1,
	}
	if sl.Alive {
		w.Started = sl.Started
	}
	if sl.State == plan.Backoff || sl.State == plan.Absent && sl.NextStart.After(now) {
		w.NextStart = sl.NextStart
	}
	if sl.Session != "" {
		w.Session = &control.Session{ID: sl.Session, Since: sl.SessionSince, Stale: s.api.State != "ok"}
	}
	if e := sl.LastExit; e != nil {
		w.LastExit = &control.Exit{Code: e.Code, Signal: e.Signal, OOM: e.OOM, Known: e.Known, At: e.At, Reason: e.Reason}
	}
	if sl.State == plan.Draining && sl.Session != "" && !sl.Goal.Until.IsZero() {
		w.Waits = fmt.Sprintf("%s, until %s at the latest", sl.Session, sl.Goal.Until.Local().Format(time.DateTime))
	}
	w.Marks = s.marks(sl, now)
	w.Health = health(sl, w.Marks)
	return w
}

// marks are conditions beside the state, each with its reason.
func (s *Supervisor) marks(sl *slot, now time.Time) []control.Mark {
	var marks []control.Mark
	if why, yes := sl.CrashLooping(s.policy(), now); yes {
		marks = append(marks, control.Mark{Name: "crash-looping", Reason: why})
	}
	if sl.Unreachable != "" {
		marks = append(marks, control.Mark{Name: "unreachable", Reason: sl.Unreachable})
	}
	if sl.deaf != "" {
		marks = append(marks, control.Mark{Name: "deaf", Reason: sl.deaf})
	}
	return marks
}

func health(sl *slot, marks []control.Mark) control.Health {
	has := func(name string) bool {
		return slices.ContainsFunc(marks, func(m control.Mark) bool { return m.Name == name })
	}
	switch {
	case sl.State == plan.Held || has("crash-looping") || has("unreachable"):
		return control.Broken
	case sl.Sandbox != "" && !sl.Found:
		return control.Unsure
	case sl.State == plan.Idle || sl.State == plan.Busy:
		if has("deaf") {
			return control.Unwell
		}
		if !sl.Proved {
			return control.Unproved
		}
		return control.Healthy
	default:
		return control.Unwell
	}
}

// sentence says how the pool is.
func (s *Supervisor) sentence(v control.Pool) (control.PoolState, string) {
	switch {
	case s.ending != nil:
		return control.PoolDraining, s.endingSentence(v)
	case s.facts.TokenRejected != "":
		return control.PoolHeld, fmt.Sprintf("the token is rejected: nothing starts, %s", plural(v.Running, "worker goes on", "workers go on"))
	case s.unsaved != nil:
		return control.PoolDegraded, "nothing can be recorded: running workers go on, nothing new starts"
	}
	var parts []string
	if v.Pending > 0 {
		parts = append(parts, plural(v.Pending, "session waits", "sessions wait"))
	}
	switch {
	case v.Running > 0 && v.Busy == v.Running:
		parts = append(parts, "all "+plural(v.Running, "worker busy", "workers busy"))
	case v.Running > 0:
		parts = append(parts, fmt.Sprintf("%d of %s busy", v.Busy, plural(v.Running, "worker", "workers")))
	case v.Desired == 0:
		parts = append(parts, "no workers are wanted")
	default:
		parts = append(parts, "no worker runs")
	}
	if v.Provisioning > 0 {
		parts = append(parts, plural(v.Provisioning, "starts", "start"))
	}
	if v.Broken > 0 {
		parts = append(parts, plural(v.Broken, "is in trouble", "are in trouble"))
	}
	if n := s.resting(); n > 0 {
		parts = append(parts, plural(n, "is drained by hand", "are drained by hand"))
	}
	if s.api.State == "stale" {
		parts = append(parts, "Devin Cloud does not answer since "+s.api.StaleSince.Format(time.TimeOnly))
	}
	detail := strings.Join(parts, ", ")
	switch {
	case v.Broken > 0:
		return control.PoolDegraded, detail
	case v.Provisioning > 0 && v.Running < v.Desired:
		return control.PoolStarting, detail
	default:
		return control.PoolRunning, detail
	}
}

// resting counts the slots that a person has drained.
func (s *Supervisor) resting() (n int) {
	for _, sl := range s.slots {
		if sl.Goal.Kind == plan.Rest {
			n++
		}
	}
	return n
}

func (s *Supervisor) endingSentence(v control.Pool) string {
	var waits []string
	left := 0
	for _, w := range v.Workers {
		if w.State != string(plan.Absent) {
			left++
		}
		if w.Session != nil && w.State == string(plan.Draining) {
			waits = append(waits, fmt.Sprintf("%s, which serves %s", w.Name, w.Waits))
		}
	}
	if len(waits) > 0 {
		return "going down; waits for " + strings.Join(waits, ", ")
	}
	return fmt.Sprintf("going down; %s left", plural(left, "worker", "workers"))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
