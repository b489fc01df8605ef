package outposttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/outpostpool/pool/worker/outpost"
)

// How long a call of the stand-in may take.
const callTimeout = 30 * time.Second

// refusal is an answer that is no success.
type refusal struct {
	status int
	detail string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d: %s", r.status, r.detail) }

// post is for what the Fleet client does not do: claims, which a supervisor
// must never make, and the gateway. Errors are the client's where it matters:
// away or rejected.
func (l *life) post(ctx context.Context, address, token string, body any) ([]byte, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := l.http.Do(request)
	if err != nil {
		return nil, &outpost.APIError{Op: "call Devin Cloud", Err: err}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, &outpost.APIError{Op: "call Devin Cloud", Err: err}
	}
	switch status := response.StatusCode; {
	case status < 300:
		return raw, nil
	case status >= 500 || status == http.StatusTooManyRequests:
		return nil, &outpost.APIError{Op: "call Devin Cloud", Status: status, Detail: string(bytes.TrimSpace(raw))}
	default:
		return nil, &refusal{status: status, detail: string(bytes.TrimSpace(raw))}
	}
}

func decodeClaim(raw []byte) (held claimed, err error) {
	var secret struct {
		Status struct {
			ConnectToken string `json:"connect_token"`
			GatewayURL   string `json:"gateway_url"`
		}
	}
	if err := json.Unmarshal(raw, &held.Entry); err != nil {
		return held, &outpost.APIError{Op: "claim a session", Status: http.StatusOK, Err: err}
	}
	if err := json.Unmarshal(raw, &secret); err != nil {
		return held, &outpost.APIError{Op: "claim a session", Status: http.StatusOK, Err: err}
	}
	held.ConnectToken, held.GatewayURL = secret.Status.ConnectToken, secret.Status.GatewayURL
	return held, nil
}

// gatewayCall speaks to the double about this session.
func (l *life) gatewayCall(ctx context.Context, held claimed, word string) ([]byte, error) {
	base := held.GatewayURL
	if base == "" {
		base = l.flags.gateway
	}
	return l.post(ctx, base+"/"+url.PathEscape(held.SessionID)+"/"+word, held.ConnectToken, struct{}{})
}

// serve works on one session until it is done, asleep, taken away, or ctx
// ends. Only the last is an error, and not to get connected is not to have
// served; by default the claim is then left as it is,
// since nobody knows that the CLI gives it back (facts outposts.md 1.7).
func (l *life) serve(ctx context.Context, held claimed) (served bool, err error) {
	l.print("claimed session %s (%s)", held.SessionID, held.Kind)
	raw, err := l.gatewayCall(ctx, held, "connect")
	if err != nil {
		l.print("session %s: cannot connect: %v", held.SessionID, err)
		return false, l.pause(ctx)
	}
	var task Assignment
	if err := json.Unmarshal(raw, &task); err != nil {
		return false, err
	}
	if err := l.begin(held, task); err != nil {
		return false, fmt.Errorf("session %s: %w", held.SessionID, err)
	}
	end := l.attend(ctx, held, task)
	l.print("session %s: %s", held.SessionID, end)
	switch {
	case ctx.Err() == nil && end != endAsleep:
		return true, os.RemoveAll(l.sessionDir(held.SessionID))
	case ctx.Err() != nil && l.habits.release:
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		return true, errors.Join(ctx.Err(), l.api.Release(release, held.SessionID, l.flags.acceptor))
	}
	return true, ctx.Err()
}

func (l *life) pause(ctx context.Context) error {
	timer := time.NewTimer(l.flags.poll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ends of a session, as printed.
const (
	endDone    = "done"
	endAsleep  = "asleep"
	endOver    = "over"
	endLost    = "claim lost"
	endStopped = "interrupted"
)

// attend keeps a session going: renews the claim at a third of its life and
// looks at the session's status once per poll interval.
func (l *life) attend(ctx context.Context, held claimed, task Assignment) (end string) {
	done, asleep := alarm(task.Left), alarm(task.SuspendIn)
	renew := time.NewTimer(renewIn(held.Deadline))
	defer renew.Stop()
	look := time.NewTicker(l.flags.poll)
	defer look.Stop()
	step := time.NewTicker(time.Second)
	defer step.Stop()
	sleepy, steps := 0, 0
	for {
		select {
		case <-ctx.Done():
			return endStopped
		case <-done:
			return l.report(ctx, held, "done", endDone)
		case <-asleep:
			return l.report(ctx, held, "sleep", endAsleep)
		case <-step.C:
			steps++
			l.print("session %s: step %d", held.SessionID, steps)
		case <-renew.C:
			renewed, err := l.claim(ctx, held.SessionID)
			if errors.Is(err, errTaken) {
				return endLost
			}
			if err == nil {
				held.Deadline = renewed.Deadline
			}
			renew.Reset(renewIn(held.Deadline))
		case <-look.C:
			e, err := l.api.Session(ctx, held.SessionID)
			switch {
			case outpost.IsNotFound(err), err == nil && e.Terminated():
				return endOver
			case err == nil && e.Acceptor != l.flags.acceptor:
				return endLost
			case err == nil && e.Suspended():
				if sleepy++; sleepy == 3 { // once may be a flicker (facts 1.7)
					return endAsleep
				}
			case err == nil:
				sleepy = 0
			}
		}
	}
}

// alarm fires once after d; never for 0.
func alarm(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// renewIn is a third of what is left, but no busy loop when nothing is.
func renewIn(deadline time.Time) time.Duration {
	return max(time.Until(deadline)/3, 100*time.Millisecond)
}

// report tells the cloud what became of the session, as often as it takes. A
// refusal means that the cloud knows better.
func (l *life) report(ctx context.Context, held claimed, word, end string) string {
	err := l.persist(ctx, func() (bool, error) {
		_, err := l.gatewayCall(ctx, held, word)
		return err == nil, err
	})
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return endOver
	case err != nil:
		return endStopped
	}
	return end
}

func (l *life) sessionDir(id string) string {
	return filepath.Join(l.dataDir(), "sessions", filepath.Base(id))
}

// begin leaves the traces that a session leaves: its state with credentials
// beside the cache (facts 1.5), a checkout in repos, the proof, and what the
// script wants.
func (l *life) begin(held claimed, task Assignment) error {
	for _, line := range task.Lines {
		l.print("%s", line)
	}
	if err := os.MkdirAll(l.sessionDir(held.SessionID), 0o700); err != nil {
		return err
	}
	state, err := json.Marshal(map[string]string{"session_id": held.SessionID, "connect_token": held.ConnectToken})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.sessionDir(held.SessionID), "state.json"), state, 0o600); err != nil {
		return err
	}
	mine := fmt.Sprintf("session %s served by %s\n", held.SessionID, l.flags.acceptor)
	files := map[string]string{
		"outpost-proof.txt": mine,
		filepath.Join("repos", filepath.Base(held.SessionID), "work.txt"): mine,
	}
	for name, content := range task.Files {
		files[name] = content
	}
	if name, content, asked := asksFor(task.Prompt); asked {
		files[name] = content
	}
	return l.writeAll(files)
}

// writeAll writes into the workspace and nowhere else.
func (l *life) writeAll(files map[string]string) error {
	root, err := os.OpenRoot(l.worker.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, content := range files {
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := root.WriteFile(name, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

var writeTask = regexp.MustCompile("(?is)write [\"'`]([^\"'`]*)[\"'`] (?:in)?to (?:the file )?[\"'`]?([^\\s\"'`]+)")

// asksFor finds `write "X" to FILE` in a prompt: the one task that the
// stand-in understands, and what `pool verify` asks for.
func asksFor(prompt string) (file, content string, asked bool) {
	found := writeTask.FindStringSubmatch(prompt)
	if found == nil {
		return "", "", false
	}
	return strings.TrimRight(found[2], ".,;"), found[1] + "\n", true
}
