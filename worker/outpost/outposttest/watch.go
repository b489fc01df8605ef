package outposttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Of a watch (facts outposts.md 2.4); how often the comments come is not
// documented.
const (
	watchLife      = 5 * time.Minute
	watchKeepalive = 5 * time.Second
)

// watchHandler serves changes as server-sent events, from the cursor on, at
// least once. It honours outpost and ignores phase and acceptor_id.
func (s *Server) watchHandler() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		how := s.begin(OpWatch, "", r)
		how.wait(r.Context())
		if how.cut() {
			panic(http.ErrAbortHandler)
		}
		a, wrong := how.instead()
		s.mu.Lock()
		if !wrong {
			a, wrong = s.refuse(OpWatch, r)
		}
		silent, ended := s.shape(OpWatch, ShapeSilentWatch), s.shape(OpWatch, ShapeEndedWatch)
		s.mu.Unlock()
		from, err := sequenceOf(r.URL.Query().Get("cursor"))
		if err != nil && !wrong {
			a, wrong = invalid("cursor", "Invalid cursor"), true
		}
		if wrong {
			writeAnswer(w, a)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		if http.NewResponseController(w).Flush() != nil || ended {
			return
		}
		s.stream(w, r, from, silent)
	}
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, from int64, silent bool) {
	end := time.NewTimer(watchLife)
	defer end.Stop()
	keepalive := time.NewTicker(watchKeepalive)
	defer keepalive.Stop()
	outpost := outpostOf(r)
	for {
		events, next, changed := s.changes(outpost, from)
		if !silent {
			for _, event := range events {
				fmt.Fprintf(w, "data: %s\n\n", event)
			}
			http.NewResponseController(w).Flush()
		}
		from = next
		select {
		case <-changed:
		case <-keepalive.C: // also looks at the clock: claims expire unasked
			fmt.Fprint(w, ": keepalive\n\n")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		case <-end.C:
			return
		case <-s.closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// changes renders every row that changed at or after from, the number to go on
// with, and a channel that closes at the next change.
func (s *Server) changes(outpost string, from int64) (events [][]byte, next int64, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for _, e := range s.byChange() {
		if e.sequence < from || outpost != "" && e.OutpostID != outpost {
			continue
		}
		kind := "MODIFIED"
		if !e.Queued {
			kind = "DELETED"
		}
		event, err := json.Marshal(map[string]any{"type": kind, "object": s.row(e, OpWatch), "cursor": cursorOf(e.sequence)})
		if err != nil {
			panic(err) // only our own types come here
		}
		events = append(events, event)
	}
	return events, s.sequence + 1, s.changed
}
