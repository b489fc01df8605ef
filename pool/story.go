package pool

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/pool/state"
)

// storyOf tells what changed between two states of a slot, as the events and
// session rows that explain it.
func (s *Supervisor) storyOf(before, next plan.Slot, now time.Time) state.Change {
	var c state.Change
	name := s.name(next.Num)
	tell := func(kind, was, is, reason string, fields map[string]string) {
		c.Events = append(c.Events, state.Event{At: now, Worker: name, Kind: kind, Was: was, Now: is, Reason: reason, Fields: fields})
	}
	if next.LastExit != nil && (before.LastExit == nil || *before.LastExit != *next.LastExit) {
		tell("exit", "", "", next.LastExit.Reason, exitFields(before, next))
	}
	if before.Session != next.Session {
		if before.Session != "" {
			c.Ended = append(c.Ended, state.Session{ID: before.Session, Worker: name, Ended: now, Ending: sessionEnding(next)})
			tell("session", before.Session, "", "left after "+plan.Span(now.Sub(before.SessionSince)), nil)
		}
		if next.Session != "" {
			c.Began = append(c.Began, state.Session{ID: next.Session, Worker: name, Began: now})
			tell("session", "", next.Session, "claimed", nil)
		}
	}
	switch {
	case serves(before) && serves(next): // the session's own event says it
	case before.State != next.State:
		tell("state", string(before.State), string(next.State), next.Reason, stateFields(next))
	case before.Reason != next.Reason:
		tell(string(next.State), "", "", next.Reason, nil)
	}
	if before.Unreachable != next.Unreachable {
		if next.Unreachable == "" {
			tell("answer", "", "", "its provider answers again", nil)
		} else if before.Unreachable == "" {
			tell("unreachable", "", "", next.Unreachable, nil)
		}
	}
	return c
}

func serves(p plan.Slot) bool { return p.State == plan.Idle || p.State == plan.Busy }

func exitFields(before, next plan.Slot) map[string]string {
	e := next.LastExit
	fields := map[string]string{"launch": before.LaunchID, "generation": strconv.Itoa(next.Generation), "pid": strconv.Itoa(before.PID)}
	if e.Known {
		fields["code"] = strconv.Itoa(e.Code)
	}
	if e.Signal != 0 {
		fields["signal"] = strconv.Itoa(e.Signal)
	}
	if e.Leftovers != "" {
		fields["leftovers"] = e.Leftovers
	}
	return fields
}

func stateFields(next plan.Slot) map[string]string {
	fields := map[string]string{}
	if next.Generation > 0 {
		fields["generation"] = strconv.Itoa(next.Generation)
	}
	if next.Alive {
		fields["pid"] = strconv.Itoa(next.PID)
		fields["launch"] = next.LaunchID
	}
	return fields
}

func sessionEnding(next plan.Slot) string {
	if next.Alive {
		return "left the worker"
	}
	return "its worker ended"
}

// logEvent writes an event to the supervisor's own log.
func (s *Supervisor) logEvent(e state.Event) {
	attrs := []slog.Attr{slog.String("kind", e.Kind)}
	if e.Worker != "" {
		attrs = append(attrs, slog.String("worker", e.Worker))
	}
	if e.Was != e.Now {
		attrs = append(attrs, slog.String("was", e.Was), slog.String("now", e.Now))
	}
	for _, key := range slices.Sorted(maps.Keys(e.Fields)) {
		if strings.Contains(e.Fields[key], "\n") {
			continue // the tail of a log, which has a file of its own
		}
		attrs = append(attrs, slog.String(key, e.Fields[key]))
	}
	s.set.Logger.LogAttrs(s.ctx, slog.LevelInfo, e.Reason, attrs...)
}

// noteOf writes an event about one slot.
func (s *Supervisor) noteOf(num int, kind, reason string) { s.noteWith(num, kind, reason, nil) }

func (s *Supervisor) noteWith(num int, kind, reason string, fields map[string]string) {
	s.tellEvent(state.Event{At: time.Now(), Worker: s.name(num), Kind: kind, Reason: reason, Fields: fields})
}
