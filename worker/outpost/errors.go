package outpost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrNoToken is returned when the token function gives an empty token.
var ErrNoToken = errors.New("no token; set DEVIN_OUTPOSTS_TOKEN to the token that was shown when the outpost was created")

// APIError is a call that did not succeed. Its text is for people and holds
// no token.
type APIError struct {
	Op     string // what was attempted, as in "read the queue"
	Status int    // HTTP status; 0 when no answer came
	Detail string // what the answer said, cleaned and cut to 500 characters
	Hint   string // what to do next; may be empty
	// RetryAfter is what the answer asked for (seconds or a date, at most a
	// day); 0 when it did not.
	RetryAfter time.Duration
	Err        error // why no usable answer came, when Status is 0 or a success
}

func (e *APIError) Error() string {
	text := e.Op + ": " + e.reason()
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

func (e *APIError) reason() string {
	switch {
	case e.Status == 0:
		return fmt.Sprintf("Devin Cloud does not answer: %v", e.Err)
	case e.Err != nil:
		return fmt.Sprintf("the answer makes no sense: %v", e.Err)
	case e.Rejected():
		return "the token is rejected (" + e.statusAndDetail() + ")"
	case e.Status == http.StatusTooManyRequests:
		return "Devin Cloud asks for fewer calls (" + e.statusAndDetail() + ")"
	case e.Status >= 500:
		return "Devin Cloud failed (" + e.statusAndDetail() + ")"
	case e.Detail != "":
		return e.Detail
	}
	return e.statusAndDetail()
}

func (e *APIError) statusAndDetail() string {
	text := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap gives the cause, where there is one besides the answer.
func (e *APIError) Unwrap() error { return e.Err }

// Rejected reports that the token is not accepted for this call: 401 or 403
// (facts outposts.md 2.1). Asking again does not help.
func (e *APIError) Rejected() bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// unreachable: no answer, or none that says anything about our question. A
// page that is not the API's (a proxy, a portal) is as good as none.
func (e *APIError) unreachable() bool {
	switch {
	case e.Status == 0:
		return !errors.Is(e.Err, context.Canceled)
	case e.Err != nil, e.Status < 400, e.Status >= 500:
		return true
	}
	return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests
}

// IsRejected reports whether err says that the token is not accepted.
func IsRejected(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Rejected()
}

// IsNotFound reports whether err says that the session or outpost does not
// exist. For a session that may also mean suspended (facts outposts.md 1.9).
func IsNotFound(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == http.StatusNotFound
}

// IsUnreachable reports whether err means that nothing new is known: no
// connection, a timeout, 408, 429, 5xx, a redirect, or an answer that is not
// the API's. What was known before stays, marked stale. A context that the
// caller cancelled is not unreachable.
func IsUnreachable(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.unreachable()
}

// RetryAfter returns the delay that the answer asked for, else 0.
func RetryAfter(err error) time.Duration {
	var api *APIError
	if errors.As(err, &api) {
		return api.RetryAfter
	}
	return 0
}

// The roles are named as the web page and the documentation name them (facts
// outposts.md 1.4).
const (
	machineRole      = `UseOutpostsMachine ("Run outpost workers")`
	orchestratorRole = `ManageOutpostsOrchestrator ("Manage outposts")`
)

func hintFor(status int, role string) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "was the token made with this outpost, by the account that owns it, and does its role have the permission " + role + "?"
	case http.StatusMethodNotAllowed:
		return "is this Devin's API? check the API URL"
	case http.StatusUnprocessableEntity:
		return "check the outpost in the configuration"
	}
	return ""
}
