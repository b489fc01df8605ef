package outposttest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Outpost is an outpost of the double. An empty ID is made up.
type Outpost struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Platform    string    `json:"platform,omitempty"` // linux, macos, windows
	Description string    `json:"description,omitempty"`
	AllowedOrgs []string  `json:"allowed_org_ids,omitempty"`
	Created     time.Time `json:"created"`
}

// AddOutpost adds an outpost and returns it with its id.
func (s *Server) AddOutpost(o Outpost) Outpost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addOutpost(o)
}

func (s *Server) addOutpost(o Outpost) Outpost {
	if o.ID == "" {
		o.ID = "outpost_env-" + s.hex(32)
	}
	o.Created = s.opt.Now()
	s.outposts = append(s.outposts, &o)
	return o
}

func (s *Server) outpost(id string) *Outpost {
	for _, o := range s.outposts {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// The list of outposts has an envelope of its own: end_cursor and after (facts
// outposts.md 2.5).
func (s *Server) listOutposts(r *http.Request) answer {
	first, problem := pageSizeOf(r, s.opt.PageSize)
	if problem != nil {
		return *problem
	}
	start := 0
	if after := r.URL.Query().Get("after"); after != "" {
		n, err := strconv.Atoi(after)
		if err != nil || n < 0 || n > len(s.outposts) {
			return invalid("after", "Invalid cursor")
		}
		start = n
	}
	end := min(start+first, len(s.outposts))
	items := []any{}
	for _, o := range s.outposts[start:end] {
		items = append(items, s.outpostRow(o))
	}
	return ok(map[string]any{
		"items": items, "end_cursor": strconv.Itoa(end), "has_next_page": end-start == first, "total": len(s.outposts),
	})
}

func (s *Server) outpostRow(o *Outpost) map[string]any {
	depth, claims := 0, 0
	for _, e := range s.sessions {
		switch {
		case e.OutpostID != o.ID || !e.Queued:
		case e.Phase == "pending":
			depth++
		case e.Phase == "claimed" && s.opt.Now().Before(e.Deadline):
			claims++
		}
	}
	idField := "outpost_id"
	if s.shape(OpOutpostsList, ShapePoolID) {
		idField = "pool_id"
	}
	return map[string]any{
		"metadata": map[string]any{idField: o.ID, "account_id": "account-double", "created_at": unix(o.Created)},
		"spec":     map[string]any{"name": o.Name, "platform": orNull(o.Platform), "description": orNull(o.Description), "allowed_org_ids": o.AllowedOrgs},
		"status":   map[string]any{"queue_depth": depth, "active_claims": claims},
	}
}

func (s *Server) getOutpost(r *http.Request) answer {
	if o := s.outpost(r.PathValue("id")); o != nil {
		return ok(s.outpostRow(o))
	}
	return fail(http.StatusNotFound, "Outpost not found")
}

func (s *Server) createOutpost(r *http.Request) answer {
	var body struct {
		Name, Platform, Description string
		AllowedOrgs                 []string `json:"allowed_org_ids"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return invalid("body", "Input should be a valid dictionary")
	}
	if body.Name == "" {
		return invalid("name", "Field required")
	}
	if body.Platform != "" && !slices.Contains([]string{"linux", "macos", "windows"}, body.Platform) {
		return invalid("platform", "Input should be 'linux', 'macos' or 'windows'")
	}
	for _, o := range s.outposts {
		if o.Name == body.Name {
			return fail(http.StatusConflict, "An outpost of this name exists")
		}
	}
	o := s.addOutpost(Outpost{Name: body.Name, Platform: body.Platform, Description: body.Description, AllowedOrgs: body.AllowedOrgs})
	return answer{status: http.StatusCreated, body: s.outpostRow(&o)}
}

func (s *Server) deleteOutpost(r *http.Request) answer {
	id := r.PathValue("id")
	if s.outpost(id) == nil {
		return fail(http.StatusNotFound, "Outpost not found")
	}
	s.outposts = slices.DeleteFunc(s.outposts, func(o *Outpost) bool { return o.ID == id })
	return answer{status: http.StatusNoContent}
}

// invalid is the answer to a parameter that cannot be: 422 with a structure
// (facts outposts.md 2.1).
func invalid(field, message string) answer {
	return answer{status: http.StatusUnprocessableEntity, body: map[string]any{
		"detail": []any{map[string]any{"type": "value_error", "loc": []string{"query", field}, "msg": message}},
	}}
}

const (
	defaultPage = 100
	maxPage     = 200
)

func pageSizeOf(r *http.Request, limit int) (int, *answer) {
	text := r.URL.Query().Get("first")
	if text == "" {
		return min(defaultPage, limit), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		a := invalid("first", "Input should be between 1 and 200")
		return 0, &a
	}
	return min(n, limit), nil
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
