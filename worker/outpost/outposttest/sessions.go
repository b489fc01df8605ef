package outposttest

import (
	"fmt"
	"slices"
	"time"
)

// Script is what a session does once a stand-in worker serves it.
type Script struct {
	// For is how long it is served, over all workers together; nanoseconds in
	// JSON, as every duration of the double. 0: until Terminate.
	For time.Duration `json:"for,omitempty"`
	// Prompt is the task. `write "X" to FILE` in it makes the worker do so.
	Prompt string            `json:"prompt,omitempty"`
	Lines  []string          `json:"lines,omitempty"` // printed when serving begins
	Files  map[string]string `json:"files,omitempty"` // path in the workspace to content
	// SuspendAfter puts the session to sleep once, after so long a service;
	// ResumeAfter wakes it so much later (0: by Resume only).
	SuspendAfter time.Duration `json:"suspend_after,omitempty"`
	ResumeAfter  time.Duration `json:"resume_after,omitempty"`
}

// NewSession is a session to add. Empty fields: a made-up ID, the first
// outpost, that outpost's platform.
type NewSession struct {
	ID        string `json:"id,omitempty"`
	OutpostID string `json:"outpost_id,omitempty"`
	Platform  string `json:"platform,omitempty"`
	Status    string `json:"status,omitempty"` // "pending", or "running": begun, waits for a machine
	Script    Script `json:"script"`
}

// Session is the double's record of a session, for oracles. It outlives the
// session's row in the queue.
type Session struct {
	ID        string    `json:"id"`
	OutpostID string    `json:"outpost_id"`
	Kind      string    `json:"kind"` // new, resume
	Platform  string    `json:"platform"`
	Queued    bool      `json:"queued"` // listed by the API
	Phase     string    `json:"phase"`  // pending, claimed
	Acceptor  string    `json:"acceptor,omitempty"`
	Status    string    `json:"status"` // pending, running, suspended, terminated
	Done      bool      `json:"done"`   // served to its end
	Deadline  time.Time `json:"deadline,omitzero"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Script    Script    `json:"script"`
	// Holders is everyone who ever claimed it, in order, a renewal not counted.
	Holders []string `json:"holders,omitempty"`
}

type session struct {
	Session
	sequence  int64
	instance  string        // the stand-in that holds it, if it said so
	served    time.Duration // before the last suspension
	connected time.Time     // zero: nobody serves it
	wakeAt    time.Time
	goneAt    time.Time // a lingering row vanishes then
	slept     bool      // SuspendAfter has been used
}

// AddSession puts a session into the queue and returns its id.
func (s *Server) AddSession(n NewSession) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.OutpostID == "" && len(s.outposts) > 0 {
		n.OutpostID = s.outposts[0].ID
	}
	o := s.outpost(n.OutpostID)
	if o == nil {
		return "", fmt.Errorf("add session: no outpost %q", n.OutpostID)
	}
	if n.ID == "" {
		n.ID = "devin-" + s.hex(24)
	}
	if s.sessions[n.ID] != nil {
		return "", fmt.Errorf("add session: %s exists", n.ID)
	}
	if n.Platform == "" {
		n.Platform = o.Platform
	}
	if n.Status == "" {
		n.Status = "pending"
	}
	e := &session{Session: Session{
		ID: n.ID, OutpostID: n.OutpostID, Kind: "new", Platform: n.Platform, Queued: true,
		Phase: "pending", Status: n.Status, Created: s.opt.Now(), Script: n.Script,
	}}
	s.sessions[n.ID] = e
	s.touch(e)
	s.note(Event{Kind: "added", Session: n.ID})
	return n.ID, nil
}

// touch marks a row as changed: it moves to the end of the list's order.
func (s *Server) touch(e *session) {
	s.sequence++
	e.sequence, e.Updated = s.sequence, s.opt.Now()
	close(s.changed)
	s.changed = make(chan struct{})
}

// free takes the row from its holder. It is pending again at once.
func (e *session) free() {
	e.Phase, e.Acceptor, e.instance, e.Deadline = "pending", "", "", time.Time{}
}

// sweep does what is due by now: claims that expired, sessions that wake, rows
// that lingered. It runs before every look, so no timer is needed.
func (s *Server) sweep() {
	now := s.opt.Now()
	for _, e := range s.byChange() {
		expired := e.Phase == "claimed" && !e.Deadline.IsZero() && now.After(e.Deadline)
		switch {
		case expired && e.Status == "pending":
			// A live session stays with its holder past the deadline (facts 1.8).
			s.note(Event{Kind: "expired", Session: e.ID, Acceptor: e.Acceptor})
			e.free()
			s.touch(e)
		case !e.wakeAt.IsZero() && !now.Before(e.wakeAt):
			s.wake(e)
		case !e.goneAt.IsZero() && !now.Before(e.goneAt):
			s.vanish(e)
		}
	}
}

func (s *Server) byChange() []*session {
	all := make([]*session, 0, len(s.sessions))
	for _, e := range s.sessions {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *session) int { return int(a.sequence - b.sequence) })
	return all
}

func (s *Server) vanish(e *session) {
	e.free()
	e.Queued, e.goneAt = false, time.Time{}
	s.touch(e)
}

// Suspend puts a session to sleep, as the cloud does with an idle one. Its row
// vanishes, or stays as a `suspended` leftover under ShapeKeepSuspended.
func (s *Server) Suspend(id string) error { return s.steer(id, s.suspend) }

// Resume wakes a suspended session: it is pending again, of kind resume, for
// any worker.
func (s *Server) Resume(id string) error { return s.steer(id, s.wake) }

// Terminate ends a session from the cloud's side, served to its end or not.
func (s *Server) Terminate(id string) error { return s.steer(id, s.terminate) }

func (s *Server) steer(id string, what func(*session)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	e := s.sessions[id]
	if e == nil {
		return fmt.Errorf("no session %q", id)
	}
	what(e)
	return nil
}

func (s *Server) suspend(e *session) {
	if e.Status == "terminated" || e.Status == "suspended" {
		return
	}
	s.note(Event{Kind: "suspended", Session: e.ID, Acceptor: e.Acceptor})
	if !e.connected.IsZero() {
		e.served += s.opt.Now().Sub(e.connected)
		e.connected = time.Time{}
	}
	e.Status, e.slept = "suspended", true
	if e.Script.ResumeAfter > 0 {
		e.wakeAt = s.opt.Now().Add(e.Script.ResumeAfter)
	}
	e.free()
	e.Queued = s.shape(OpList, ShapeKeepSuspended)
	s.touch(e)
}

func (s *Server) wake(e *session) {
	e.wakeAt = time.Time{}
	if e.Status != "suspended" {
		return
	}
	e.Kind, e.Status, e.Queued = "resume", "pending", true
	s.note(Event{Kind: "resumed", Session: e.ID})
	s.touch(e)
}

func (s *Server) terminate(e *session) {
	if e.Status == "terminated" {
		return
	}
	e.Status, e.connected, e.wakeAt = "terminated", time.Time{}, time.Time{}
	s.note(Event{Kind: "terminated", Session: e.ID, Acceptor: e.Acceptor})
	linger, lingers := s.lingering()
	switch {
	case lingers:
		e.goneAt = s.opt.Now().Add(linger)
	case s.shape(OpList, ShapeLeftovers):
		e.free() // released, not yet swept: pending and terminated (facts 2.2)
	default:
		s.vanish(e)
		return
	}
	s.touch(e)
}
