package outposttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Remote steers a double in another process.
type Remote struct {
	URL  string       // what RunServer printed
	HTTP *http.Client // nil: http.DefaultClient
}

// State returns what the double knows now.
func (r Remote) State(ctx context.Context) (state State, err error) {
	return state, r.do(ctx, http.MethodGet, "/_double/state", nil, &state)
}

// History returns what happened, oldest first.
func (r Remote) History(ctx context.Context) (events []Event, err error) {
	return events, r.do(ctx, http.MethodGet, "/_double/history", nil, &events)
}

// AddOutpost adds an outpost and returns it with its id.
func (r Remote) AddOutpost(ctx context.Context, o Outpost) (added Outpost, err error) {
	return added, r.do(ctx, http.MethodPost, "/_double/outposts", o, &added)
}

// AddSession puts a session into the queue and returns its id.
func (r Remote) AddSession(ctx context.Context, n NewSession) (string, error) {
	return r.doForID(ctx, "/_double/sessions", n)
}

// Suspend puts a session to sleep.
func (r Remote) Suspend(ctx context.Context, id string) error { return r.steer(ctx, id, "suspend") }

// Resume wakes a suspended session.
func (r Remote) Resume(ctx context.Context, id string) error { return r.steer(ctx, id, "resume") }

// Terminate ends a session.
func (r Remote) Terminate(ctx context.Context, id string) error { return r.steer(ctx, id, "terminate") }

func (r Remote) steer(ctx context.Context, id, word string) error {
	return r.do(ctx, http.MethodPost, "/_double/sessions/"+url.PathEscape(id)+"/"+word, nil, nil)
}

// SetFault switches a fault on and returns its id.
func (r Remote) SetFault(ctx context.Context, f Fault) (string, error) {
	return r.doForID(ctx, "/_double/faults", f)
}

// ClearFaults switches every fault off.
func (r Remote) ClearFaults(ctx context.Context) error {
	return r.do(ctx, http.MethodDelete, "/_double/faults", nil, nil)
}

// SetTokens replaces the accepted tokens; see Options.
func (r Remote) SetTokens(ctx context.Context, everything, machine []string) error {
	return r.do(ctx, http.MethodPut, "/_double/tokens", map[string][]string{"everything": everything, "machine": machine}, nil)
}

func (r Remote) doForID(ctx context.Context, path string, body any) (string, error) {
	var made struct{ ID string }
	err := r.do(ctx, http.MethodPost, path, body, &made)
	return made.ID, err
}

func (r Remote) do(ctx context.Context, method, path string, body, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, r.URL+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	client := r.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(text))
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
