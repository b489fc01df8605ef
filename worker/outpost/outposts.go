package outpost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
)

// The short route is what every known client uses, the long one is what the
// documentation says (facts outposts.md 2.5). Both are tried; a machine token
// may list on either.
const (
	shortRoute = "/opbeta/outposts"
	longRoute  = "/opbeta/outposts/outposts"
)

// Outposts lists every outpost that the token sees, all pages.
func (c *Client) Outposts(ctx context.Context) ([]Outpost, error) {
	const op = "list outposts"
	var out []Outpost
	seen := map[string]bool{}
	err := c.pages(func(cursor string) (page, error) {
		query := url.Values{"first": {pageSize}}
		if cursor != "" {
			query.Set("after", cursor)
		}
		var p page
		err := c.onEitherRoute(func(route string) (err error) {
			p, err = c.page(ctx, call{op: op, method: http.MethodGet, path: route, query: query, role: machineRole})
			return err
		})
		return p, err
	}, func(raw json.RawMessage) {
		if o, err := decodeOutpost(raw); err == nil && !seen[o.ID] {
			seen[o.ID] = true
			out = append(out, o)
		}
	}, op)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Find returns the outpost with this id or name. It reads the list, which a
// worker's token may do while reading a single outpost is reserved to
// orchestrators (facts 2.5). The hint of a NotFound error names what there is.
func (c *Client) Find(ctx context.Context, nameOrID string) (Outpost, error) {
	all, err := c.Outposts(ctx)
	if err != nil {
		return Outpost{}, err
	}
	for _, o := range all {
		if o.ID == nameOrID {
			return o, nil
		}
	}
	for _, o := range all {
		if o.Name == nameOrID {
			return o, nil
		}
	}
	return Outpost{}, &APIError{
		Op:     "find outpost " + strconv.Quote(clean(nameOrID)),
		Status: http.StatusNotFound,
		Detail: "this token sees no outpost of that name or id",
		Hint:   namesHint(all),
	}
}

const namesInHint = 8

func namesHint(all []Outpost) string {
	if len(all) == 0 {
		return "it sees none at all: was it made by the account that owns the outpost?"
	}
	names := make([]string, 0, len(all))
	for _, o := range all {
		if o.Name == "" {
			names = append(names, clean(o.ID))
			continue
		}
		names = append(names, clean(o.Name))
	}
	sort.Strings(names)
	if more := len(names) - namesInHint; more > 0 {
		return fmt.Sprintf("it sees %s and %d more", strings.Join(names[:namesInHint], ", "), more)
	}
	return "it sees " + strings.Join(names, ", ")
}

// NewOutpost is an outpost to create.
type NewOutpost struct {
	Name        string
	Platform    string // linux, macos, windows; empty: the vendor's default
	Description string
	AllowedOrgs []string // nil: all of the account
}

// CreateOutpost creates an outpost. It needs an orchestrator's token. After an
// error that IsUnreachable it may exist: look with Find.
func (c *Client) CreateOutpost(ctx context.Context, n NewOutpost) (Outpost, error) {
	body := map[string]any{"name": n.Name}
	if n.Platform != "" {
		body["platform"] = n.Platform
	}
	if n.Description != "" {
		body["description"] = n.Description
	}
	if n.AllowedOrgs != nil {
		body["allowed_org_ids"] = n.AllowedOrgs
	}
	op := "create outpost " + strconv.Quote(clean(n.Name))
	var answer []byte
	err := c.onEitherRoute(func(route string) (err error) {
		answer, err = c.do(ctx, call{op: op, method: http.MethodPost, path: route, body: body, role: orchestratorRole})
		return err
	})
	if err != nil {
		return Outpost{}, err
	}
	o, err := decodeOutpost(answer)
	if err != nil {
		return Outpost{}, &APIError{Op: op, Status: http.StatusOK, Err: err}
	}
	return o, nil
}

// DeleteOutpost deletes an outpost by its id. It needs an orchestrator's
// token. IsNotFound when there is none.
func (c *Client) DeleteOutpost(ctx context.Context, id string) error {
	return c.onEitherRoute(func(route string) error {
		_, err := c.do(ctx, call{
			op:     "delete outpost " + strconv.Quote(clean(id)),
			method: http.MethodDelete,
			path:   route + "/" + url.PathEscape(id),
			role:   orchestratorRole,
		})
		return err
	})
}

// onEitherRoute tries the route that worked last, and on 404 or 405 the other.
// It remembers a change only when the other one worked: a 404 may as well mean
// an unknown outpost.
func (c *Client) onEitherRoute(try func(route string) error) error {
	long := c.longRoute.Load()
	first := try(routeOf(long))
	if !retired(first) {
		return first
	}
	second := try(routeOf(!long))
	switch {
	case second == nil:
		c.longRoute.Store(!long)
		return nil
	case statusOf(second) == http.StatusMethodNotAllowed:
		return first
	}
	return second
}

func routeOf(long bool) string {
	if long {
		return longRoute
	}
	return shortRoute
}

func retired(err error) bool {
	status := statusOf(err)
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// statusOf returns the HTTP status an error carries, 0 for none.
func statusOf(err error) int {
	var api *APIError
	if errors.As(err, &api) {
		return api.Status
	}
	return 0
}
