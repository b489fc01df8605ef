package outposttest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Event is one thing that happened to a session: added, claimed, renewed,
// conflict, connected, released, expired, suspended, resumed, done, terminated.
type Event struct {
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Session  string    `json:"session"`
	Acceptor string    `json:"acceptor,omitempty"`
	Instance string    `json:"instance,omitempty"` // the stand-in's; empty for others
}

// Kinds of Violation.
const (
	// TwoLives: two workers with one acceptor id lived at the same time.
	TwoLives = "two-lives"
	// ClaimedHeld: a worker tried to claim what somebody else has held for
	// longer than any race between a look and a claim lasts.
	ClaimedHeld = "claimed-held"
	// ClaimedLeftover: a worker claimed a row whose session is over or asleep.
	ClaimedLeftover = "claimed-leftover"
	// ReleasedAlive: somebody released a claim whose worker was still alive.
	ReleasedAlive = "released-alive"
)

// Violation is a breach of the contract between workers, supervisor and cloud.
// Each is a fact, never a suspicion: an oracle may fail on the first.
type Violation struct {
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Session  string    `json:"session,omitempty"`
	Acceptor string    `json:"acceptor,omitempty"`
	Detail   string    `json:"detail"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (acceptor %s, session %s)", v.Kind, v.Detail, v.Acceptor, v.Session)
}

// State is everything the double knows.
type State struct {
	Outposts   []Outpost      `json:"outposts"`
	Sessions   []Session      `json:"sessions"` // in the order of their last change
	Faults     []Fault        `json:"faults"`
	Requests   map[string]int `json:"requests"`
	Violations []Violation    `json:"violations"`
	Served     int            `json:"served"` // sessions served to their end
}

// State returns a copy of what the double knows now.
func (s *Server) State() State {
	requests := s.Requests()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	state := State{Requests: requests, Violations: slices.Clone(s.violations)}
	for _, o := range s.outposts {
		state.Outposts = append(state.Outposts, *o)
	}
	for _, e := range s.byChange() {
		copied := e.Session
		copied.Holders = slices.Clone(e.Holders)
		state.Sessions = append(state.Sessions, copied)
		if e.Done {
			state.Served++
		}
	}
	for _, f := range s.faults {
		state.Faults = append(state.Faults, *f)
	}
	return state
}

// Session returns the record of one session.
func (s *Server) Session(id string) (Session, bool) {
	for _, e := range s.State().Sessions {
		if e.ID == id {
			return e, true
		}
	}
	return Session{}, false
}

// History returns what happened, oldest first, the last 50,000 events.
func (s *Server) History() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history)
}

// Violations returns every breach so far.
func (s *Server) Violations() []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

const historyLimit = 50_000

func (s *Server) note(e Event) {
	e.At = s.opt.Now()
	if len(s.history) >= historyLimit {
		s.history = slices.Delete(s.history, 0, historyLimit/10)
	}
	s.history = append(s.history, e)
}

func (s *Server) violate(v Violation) {
	v.At = s.opt.Now()
	s.violations = append(s.violations, v)
}

// noteConflict records a lost claim. Losing a race is normal (facts 2.1);
// trying for what has been held for a tenth of a claim's life is not.
func (s *Server) noteConflict(e *session, acceptor string, r *http.Request) {
	s.note(Event{Kind: "conflict", Session: e.ID, Acceptor: acceptor, Instance: instanceOf(r)})
	if held := s.opt.Now().Sub(e.Updated); held > s.opt.ClaimTTL/10 {
		s.violate(Violation{Kind: ClaimedHeld, Session: e.ID, Acceptor: acceptor,
			Detail: fmt.Sprintf("tried to claim what %s has held for %s", e.Acceptor, held.Round(time.Second))})
	}
}

// Headers that the stand-in worker sends with each request, so that two lives
// of one acceptor id can be told apart. Others need not.
const (
	HeaderInstance = "X-Double-Instance" // differs for each life
	HeaderAcceptor = "X-Double-Acceptor"
	HeaderSent     = "X-Double-Sent" // Unix nanoseconds
)

func instanceOf(r *http.Request) string { return r.Header.Get(HeaderInstance) }

// lives tells which workers were surely alive when. It judges by the moment of
// sending, so a request that arrives late accuses nobody. That takes workers
// and double to share one clock, which those of one machine do.
type lives struct {
	spans    map[string]map[string]*span // acceptor, instance
	releases map[string][]release        // instance
	accused  map[string]bool
}

type span struct{ first, last time.Time }

type release struct {
	session string
	at      time.Time
}

func newLives() lives {
	return lives{spans: map[string]map[string]*span{}, releases: map[string][]release{}, accused: map[string]bool{}}
}

// noteLife takes a request as a sign of life of the one who sent it.
func (s *Server) noteLife(r *http.Request) {
	acceptor, instance := r.Header.Get(HeaderAcceptor), instanceOf(r)
	sent, err := strconv.ParseInt(r.Header.Get(HeaderSent), 10, 64)
	if instance == "" || acceptor == "" || err != nil {
		return
	}
	for _, v := range s.lives.seen(acceptor, instance, time.Unix(0, sent)) {
		s.violate(v)
	}
}

func (l lives) seen(acceptor, instance string, at time.Time) []Violation {
	others := l.spans[acceptor]
	if others == nil {
		others = map[string]*span{}
		l.spans[acceptor] = others
	}
	mine := others[instance]
	if mine == nil {
		mine = &span{first: at, last: at}
		others[instance] = mine
	}
	if at.Before(mine.first) {
		mine.first = at
	}
	if at.After(mine.last) {
		mine.last = at
	}
	var found []Violation
	for other, theirs := range others {
		overlap := mine.last.After(theirs.first) && theirs.last.After(mine.first)
		if other != instance && overlap && l.accuse(pair(instance, other)) {
			found = append(found, Violation{Kind: TwoLives, Acceptor: acceptor, Detail: "instances " + pair(instance, other) + " were alive together"})
		}
	}
	for _, r := range l.releases[instance] {
		if at.After(r.at) && l.accuse(instance+" "+r.session) {
			found = append(found, Violation{Kind: ReleasedAlive, Acceptor: acceptor, Session: r.session, Detail: "instance " + instance + " spoke after its claim had been released for it"})
		}
	}
	return found
}

func (l lives) released(instance, session string, at time.Time) {
	if instance != "" {
		l.releases[instance] = append(l.releases[instance], release{session: session, at: at})
	}
}

func (l lives) accuse(what string) bool {
	fresh := !l.accused[what]
	l.accused[what] = true
	return fresh
}

func pair(a, b string) string { return min(a, b) + " and " + max(a, b) }
