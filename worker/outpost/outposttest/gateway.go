package outposttest

import (
	"net/http"
	"strings"
	"time"
)

// gatewayPath is where a stand-in worker turns with its connect token. In the
// real thing this runs over the gateway, in a protocol that nobody published.
const gatewayPath = "/_double/sessions"

// Assignment is what a worker learns when it connects to its session.
type Assignment struct {
	Script
	// Left is how long to serve from now on; 0 with a zero Script.For: until
	// the session's entry is gone or terminated.
	Left time.Duration `json:"left"`
	// SuspendIn is when to put the session to sleep; 0: not at all.
	SuspendIn time.Duration `json:"suspend_in,omitempty"`
}

func (s *Server) gateway(mux *http.ServeMux) {
	mux.HandleFunc("POST "+gatewayPath+"/{id}/connect", s.connected(s.connect))
	mux.HandleFunc("POST "+gatewayPath+"/{id}/done", s.connected(s.finish))
	mux.HandleFunc("POST "+gatewayPath+"/{id}/sleep", s.connected(s.sleep))
}

// connected admits whoever has a connect token of this session.
func (s *Server) connected(handle func(*session) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.noteLife(r)
		s.sweep()
		a := s.admit(r, handle)
		s.mu.Unlock()
		writeAnswer(w, a)
	}
}

func (s *Server) admit(r *http.Request, handle func(*session) answer) answer {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	id := r.PathValue("id")
	if s.tokens[token] != id {
		return fail(http.StatusUnauthorized, "Invalid connect token")
	}
	e := s.queued(id)
	if e == nil || e.Phase != "claimed" || e.Status == "terminated" || e.Status == "suspended" {
		return fail(http.StatusGone, "Session is over, asleep or held by nobody")
	}
	return handle(e)
}

// connect begins or goes on with the service. A worker that was restarted
// connects again and gets what is left.
func (s *Server) connect(e *session) answer {
	if e.connected.IsZero() {
		e.connected = s.opt.Now()
		e.Status = "running"
		s.touch(e)
	}
	s.note(Event{Kind: "connected", Session: e.ID, Acceptor: e.Acceptor, Instance: e.instance})
	served := e.served + s.opt.Now().Sub(e.connected)
	a := Assignment{Script: e.Script}
	if e.Script.For > 0 {
		// Never 0, which would mean without end.
		a.Left = max(e.Script.For-served, time.Millisecond)
	}
	if e.Script.SuspendAfter > 0 && !e.slept {
		a.SuspendIn = max(e.Script.SuspendAfter-served, time.Millisecond)
	}
	return ok(a)
}

func (s *Server) finish(e *session) answer {
	e.Done = true
	s.note(Event{Kind: "done", Session: e.ID, Acceptor: e.Acceptor, Instance: e.instance})
	s.terminate(e)
	return ok(struct{}{})
}

func (s *Server) sleep(e *session) answer {
	s.suspend(e)
	return ok(struct{}{})
}
