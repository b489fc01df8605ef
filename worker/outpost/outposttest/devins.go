package outposttest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listSessions gives one page: rows in the order of their last change,
// beginning at the cursor, so that the last row of a page is the first of the
// next (facts outposts.md 2.3).
func (s *Server) listSessions(r *http.Request) answer {
	first, problem := pageSizeOf(r, s.opt.PageSize)
	if problem != nil {
		return *problem
	}
	query := r.URL.Query()
	from, err := sequenceOf(query.Get("cursor"))
	if err != nil {
		return invalid("cursor", "Invalid cursor")
	}
	phase := query.Get("phase")
	if phase != "" && phase != "pending" && phase != "claimed" {
		return invalid("phase", "Input should be 'pending' or 'claimed'")
	}
	outpost := outpostOf(r)
	if outpost != "" && s.outpost(outpost) == nil {
		return fail(http.StatusNotFound, "Outpost not found")
	}
	wanted := slices.DeleteFunc(s.byChange(), func(e *session) bool {
		return !e.Queued || outpost != "" && e.OutpostID != outpost ||
			phase != "" && e.Phase != phase ||
			query.Has("acceptor_id") && e.Acceptor != query.Get("acceptor_id")
	})
	return ok(s.sessionsPage(wanted, from, first))
}

func (s *Server) sessionsPage(wanted []*session, from int64, first int) map[string]any {
	start := 0
	for start < len(wanted) && wanted[start].sequence < from {
		start++
	}
	if from > 0 && s.shape(OpList, ShapeRepeatRows) {
		start = max(0, start-first/2) // more than the one row that always repeats
	}
	end := min(start+first, len(wanted))
	items := []any{}
	for _, e := range wanted[start:end] {
		items = append(items, s.row(e, OpList))
	}
	next := from
	if end > start {
		next = wanted[end-1].sequence
	}
	more := end-start == first
	switch {
	case s.shape(OpList, ShapeRepeatCursor):
		more = true
	case end == len(wanted) && end > start && s.shape(OpList, ShapeEmptyLastPage):
		next, more = next+1, true
	}
	return map[string]any{"items": items, "cursor": cursorOf(next), "has_next_page": more, "total": len(wanted)}
}

// Cursors are opaque to clients and serve list and watch alike.
func cursorOf(sequence int64) string { return "c." + strconv.FormatInt(sequence, 36) }

func sequenceOf(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	return strconv.ParseInt(strings.TrimPrefix(cursor, "c."), 36, 64)
}

func outpostOf(r *http.Request) string {
	if id := r.URL.Query().Get("outpost"); id != "" {
		return id
	}
	return r.URL.Query().Get("pool")
}

// row renders an entry as the API does, with whatever oddity is switched on.
func (s *Server) row(e *session, op string) map[string]any {
	status := map[string]any{
		"phase":          e.Phase,
		"acceptor_id":    orNull(e.Acceptor),
		"claim_deadline": s.deadline(e.Deadline, op),
		"session_status": e.Status,
	}
	if s.shape(op, ShapeUnknownStatus) {
		status["session_status"] = "rehydrating"
	}
	if e.Status == "running" && e.Phase == "claimed" && s.shape(op, ShapeFlapSuspended) {
		status["session_status"] = "suspended"
	}
	idField := "outpost_id"
	if s.shape(op, ShapePoolID) {
		idField = "pool_id"
	}
	row := map[string]any{
		"metadata": map[string]any{"session_id": e.ID, idField: e.OutpostID, "created_at": unix(e.Created), "updated_at": unix(e.Updated)},
		"spec":     map[string]any{"kind": e.Kind, "platform": orNull(e.Platform), "remote_binary_sha": nil},
		"status":   status,
	}
	if s.shape(op, ShapeExtraFields) {
		row["future"] = []any{map[string]any{"a": 1}}
		status["mood"] = map[string]any{"word": "fine", "since": nil}
	}
	return row
}

func (s *Server) deadline(t time.Time, op string) any {
	switch {
	case t.IsZero():
		return nil
	case s.shape(op, ShapeDeadlineMillis):
		return t.UnixMilli()
	case s.shape(op, ShapeDeadlineISO):
		return t.UTC().Format(time.RFC3339Nano)
	}
	return unix(t)
}

const notQueued = "Session not found in queue" // facts outposts.md 2.1

// queued returns the session if the API would show it.
func (s *Server) queued(id string) *session {
	if e := s.sessions[id]; e != nil && e.Queued {
		return e
	}
	return nil
}

func (s *Server) getSession(r *http.Request) answer {
	if e := s.queued(r.PathValue("id")); e != nil {
		return ok(s.row(e, OpGet))
	}
	return fail(http.StatusNotFound, notQueued)
}

func acceptorOf(r *http.Request) (string, *answer) {
	var body struct {
		Acceptor string `json:"acceptor_id"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Acceptor == "" {
		a := invalid("acceptor_id", "Field required")
		return "", &a
	}
	return body.Acceptor, nil
}

// claimSession is atomic; the holder's own claim is a renewal, which gives a
// fresh connect token while older ones stay usable (facts outposts.md 1.8).
func (s *Server) claimSession(r *http.Request) answer {
	acceptor, problem := acceptorOf(r)
	if problem != nil {
		return *problem
	}
	e := s.queued(r.PathValue("id"))
	if e == nil {
		return fail(http.StatusNotFound, notQueued)
	}
	if e.Phase == "claimed" && e.Acceptor != acceptor {
		s.noteConflict(e, acceptor, r)
		return fail(http.StatusConflict, "Session is already claimed")
	}
	s.take(e, acceptor, instanceOf(r))
	token := "connect-" + s.hex(32)
	s.tokens[token] = e.ID
	row := s.row(e, OpClaim)
	row["status"].(map[string]any)["connect_token"] = token
	row["status"].(map[string]any)["gateway_url"] = "http://" + r.Host + gatewayPath
	return ok(row)
}

func (s *Server) take(e *session, acceptor, instance string) {
	kind := "renewed"
	if e.Phase != "claimed" {
		kind = "claimed"
		e.Holders = append(e.Holders, acceptor)
		if e.Status == "terminated" || e.Status == "suspended" {
			s.violate(Violation{Kind: ClaimedLeftover, Session: e.ID, Acceptor: acceptor, Detail: "claimed a row whose session is " + e.Status})
		}
	}
	e.Phase, e.Acceptor, e.instance = "claimed", acceptor, instance
	e.Deadline = s.opt.Now().Add(s.opt.ClaimTTL)
	s.touch(e)
	s.note(Event{Kind: kind, Session: e.ID, Acceptor: acceptor, Instance: instance})
}

func (s *Server) releaseSession(r *http.Request) answer {
	acceptor, problem := acceptorOf(r)
	if problem != nil {
		return *problem
	}
	e := s.queued(r.PathValue("id"))
	switch {
	case e == nil:
		return fail(http.StatusNotFound, notQueued)
	case e.Phase != "claimed" || e.Acceptor != acceptor:
		return fail(http.StatusConflict, "Session is not claimed by this acceptor")
	}
	if by := instanceOf(r); by != e.instance {
		s.lives.released(e.instance, e.ID, s.opt.Now())
	}
	if !e.connected.IsZero() {
		e.served += s.opt.Now().Sub(e.connected)
		e.connected = time.Time{}
	}
	e.free()
	s.touch(e)
	s.note(Event{Kind: "released", Session: e.ID, Acceptor: acceptor, Instance: instanceOf(r)})
	return ok(s.row(e, OpRelease))
}
