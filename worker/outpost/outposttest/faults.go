package outposttest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Operations of the documented API, for Fault.Op and Requests.
const (
	OpOutpostsList   = "outposts.list"
	OpOutpostsGet    = "outposts.get"
	OpOutpostsCreate = "outposts.create"
	OpOutpostsDelete = "outposts.delete"
	OpList           = "devins.list"
	OpGet            = "devins.get"
	OpClaim          = "devins.claim"
	OpRelease        = "devins.release"
	OpWatch          = "devins.watch"
)

// Routes of the outposts (facts outposts.md 2.5), for Fault.Route.
const (
	RouteShort = "short"
	RouteLong  = "long"
)

var routePath = map[string]string{RouteShort: "/opbeta/outposts", RouteLong: "/opbeta/outposts/outposts"}

// Kinds of Fault that befall a request.
const (
	FaultStatus = "status" // answer with Status instead; nothing is done
	FaultSlow   = "slow"   // wait Delay first
	FaultHang   = "hang"   // never answer
	FaultCut    = "cut"    // break the connection; nothing is done
	FaultLost   = "lost"   // do it, then break the connection
	FaultHalf   = "half"   // do it, break off in the middle of the answer
	FaultHTML   = "html"   // 200 with a page that is not the API's
	FaultEmpty  = "empty"  // 200 with {}, an envelope without a list
)

// Kinds of Fault that change what answers look like or how rows behave.
const (
	ShapeRepeatRows     = "repeat-rows"     // half of each page again
	ShapeEmptyLastPage  = "empty-last-page" // one more page, with nothing on it
	ShapeRepeatCursor   = "repeat-cursor"   // has_next_page never turns false
	ShapeUnknownStatus  = "unknown-status"  // a session_status nobody knows
	ShapeFlapSuspended  = "flap-suspended"  // live sessions read suspended
	ShapeKeepSuspended  = "keep-suspended"  // suspended rows stay, pending
	ShapeLeftovers      = "leftovers"       // ended rows stay, pending and terminated
	ShapeLinger         = "linger"          // ended rows stay claimed and terminated for Delay
	ShapePoolID         = "pool-id"         // pool_id instead of outpost_id
	ShapeDeadlineMillis = "deadline-ms"
	ShapeDeadlineISO    = "deadline-iso"
	ShapeExtraFields    = "extra-fields"
	ShapeSilentWatch    = "silent-watch" // watches stay open and say nothing
	ShapeEndedWatch     = "ended-watch"  // watches end at once
)

var faultKinds = []string{
	FaultStatus, FaultSlow, FaultHang, FaultCut, FaultLost, FaultHalf, FaultHTML, FaultEmpty,
	ShapeRepeatRows, ShapeEmptyLastPage, ShapeRepeatCursor, ShapeUnknownStatus, ShapeFlapSuspended,
	ShapeKeepSuspended, ShapeLeftovers, ShapeLinger, ShapePoolID, ShapeDeadlineMillis, ShapeDeadlineISO,
	ShapeExtraFields, ShapeSilentWatch, ShapeEndedWatch,
}

// Fault is one thing that goes wrong, until it is cleared or used up.
type Fault struct {
	ID         string        `json:"id,omitempty"` // given by SetFault
	Kind       string        `json:"kind"`
	Op         string        `json:"op,omitempty"`          // empty: every operation
	Route      string        `json:"route,omitempty"`       // outposts only; empty: both
	Status     int           `json:"status,omitempty"`      // of FaultStatus
	Detail     string        `json:"detail,omitempty"`      // of FaultStatus
	RetryAfter string        `json:"retry_after,omitempty"` // header of FaultStatus
	Delay      time.Duration `json:"delay,omitempty"`
	From       time.Time     `json:"from,omitzero"`     // not before
	After      int           `json:"after,omitempty"`   // lets so many pass first
	Count      int           `json:"count,omitempty"`   // happens so often, then never again; 0: no limit
	Percent    int           `json:"percent,omitempty"` // by the seed's dice; 0: always
}

// SetFault switches a fault on and returns its id.
func (s *Server) SetFault(f Fault) (string, error) {
	if !slices.Contains(faultKinds, f.Kind) {
		return "", fmt.Errorf("no fault of kind %q; there are %v", f.Kind, faultKinds)
	}
	if f.Kind == FaultStatus && (f.Status < 300 || f.Status > 599) {
		return "", fmt.Errorf("a fault of kind %q needs a status from 300 to 599, not %d", f.Kind, f.Status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultCount++
	f.ID = fmt.Sprintf("fault-%d", s.faultCount)
	s.faults = append(s.faults, &f)
	return f.ID, nil
}

// ClearFaults switches these faults off, or all when none is named.
func (s *Server) ClearFaults(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = slices.DeleteFunc(s.faults, func(f *Fault) bool { return len(ids) == 0 || slices.Contains(ids, f.ID) })
}

// strikes decides whether a fault happens now, and uses it up.
func (s *Server) strikes(f *Fault, op, route string) bool {
	switch {
	case f.Op != "" && f.Op != op, f.Route != "" && f.Route != route, s.opt.Now().Before(f.From):
		return false
	case f.After > 0:
		f.After--
		return false
	case f.Percent > 0 && s.dice.IntN(100) >= f.Percent:
		return false
	}
	if f.Count > 0 {
		f.Count--
		if f.Count == 0 {
			s.faults = slices.DeleteFunc(s.faults, func(other *Fault) bool { return other == f })
		}
	}
	return true
}

// shape reports whether an oddity of this kind shows now.
func (s *Server) shape(op, kind string) bool {
	for _, f := range slices.Clone(s.faults) {
		if f.Kind == kind && s.strikes(f, op, "") {
			return true
		}
	}
	return false
}

func (s *Server) lingering() (time.Duration, bool) {
	for _, f := range slices.Clone(s.faults) {
		if f.Kind == ShapeLinger && s.strikes(f, OpList, "") {
			return f.Delay, true
		}
	}
	return 0, false
}

// mishaps is what goes wrong with one request.
type mishaps struct{ faults []Fault }

var befallRequests = []string{FaultStatus, FaultSlow, FaultHang, FaultCut, FaultLost, FaultHalf, FaultHTML, FaultEmpty}

func (s *Server) roll(op, route string) mishaps {
	var m mishaps
	for _, f := range slices.Clone(s.faults) {
		if slices.Contains(befallRequests, f.Kind) && s.strikes(f, op, route) {
			m.faults = append(m.faults, *f)
		}
	}
	return m
}

func (m mishaps) find(kind string) (Fault, bool) {
	for _, f := range m.faults {
		if f.Kind == kind {
			return f, true
		}
	}
	return Fault{}, false
}

// wait is for slow and hanging answers. It ends with the request.
func (m mishaps) wait(ctx context.Context) {
	if _, hangs := m.find(FaultHang); hangs {
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	}
	if slow, is := m.find(FaultSlow); is {
		timer := time.NewTimer(slow.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
}

func (m mishaps) cut() bool {
	_, cut := m.find(FaultCut)
	return cut
}

// instead is the answer that replaces the real one.
func (m mishaps) instead() (answer, bool) {
	if f, is := m.find(FaultStatus); is {
		detail := f.Detail
		if detail == "" {
			detail = http.StatusText(f.Status)
		}
		a := fail(f.Status, "%s", detail)
		if f.RetryAfter != "" {
			a.header = http.Header{"Retry-After": {f.RetryAfter}}
		}
		if f.Status < 400 {
			a.header = http.Header{"Location": {"http://portal.invalid/login"}}
		}
		return a, true
	}
	if _, is := m.find(FaultHTML); is {
		return ok(page("<html><body>Please log in.</body></html>")), true
	}
	if _, is := m.find(FaultEmpty); is {
		return ok(map[string]any{}), true
	}
	return answer{}, false
}

// write sends the real answer, as far as it gets.
func (m mishaps) write(w http.ResponseWriter, a answer) {
	if _, lost := m.find(FaultLost); lost {
		panic(http.ErrAbortHandler)
	}
	if _, half := m.find(FaultHalf); half {
		body := a.encoded()
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(a.status)
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	writeAnswer(w, a)
}
