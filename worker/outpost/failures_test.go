package outpost_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outpostpool/pool/worker/outpost"
	double "github.com/outpostpool/pool/worker/outpost/outposttest"
)

func statusOf(err error) int {
	var api *outpost.APIError
	if errors.As(err, &api) {
		return api.Status
	}
	return 0
}

// What each fault of the API means, for every call that a supervisor makes.
func TestFaultsAndWhatTheyMean(t *testing.T) {
	type meaning struct {
		rejected, notFound, unreachable bool
		retryAfter                      time.Duration
		text                            string
	}
	status := func(code int, retryAfter string) double.Fault {
		return double.Fault{Kind: double.FaultStatus, Status: code, RetryAfter: retryAfter, Detail: "it is " + token}
	}
	for name, c := range map[string]struct {
		fault double.Fault
		want  meaning
	}{
		"401":                  {status(401, ""), meaning{rejected: true, text: `by the account that owns it, and does its role have the permission UseOutpostsMachine ("Run outpost workers")?`}},
		"403":                  {status(403, ""), meaning{rejected: true, text: "was the token made with this outpost"}},
		"404":                  {status(404, ""), meaning{notFound: true}},
		"405":                  {status(405, ""), meaning{text: "check the API URL"}},
		"422":                  {status(422, ""), meaning{text: "check the outpost in the configuration"}},
		"429":                  {status(429, ""), meaning{unreachable: true, text: "fewer calls"}},
		"429 with Retry-After": {status(429, "17"), meaning{unreachable: true, retryAfter: 17 * time.Second}},
		"500":                  {status(500, ""), meaning{unreachable: true, text: "Devin Cloud failed"}},
		"503 with Retry-After": {status(503, "2"), meaning{unreachable: true, retryAfter: 2 * time.Second}},
		"a portal's redirect":  {status(302, ""), meaning{unreachable: true, text: "redirects elsewhere, to portal.invalid"}},
		"a portal's page":      {double.Fault{Kind: double.FaultHTML}, meaning{unreachable: true, text: "not the JSON of Devin's API"}},
		"no list in it":        {double.Fault{Kind: double.FaultEmpty}, meaning{unreachable: true, text: "no list of items"}},
		"cut before":           {double.Fault{Kind: double.FaultCut}, meaning{unreachable: true, text: "does not answer"}},
		"cut after":            {double.Fault{Kind: double.FaultLost}, meaning{unreachable: true}},
		"cut in the middle":    {double.Fault{Kind: double.FaultHalf}, meaning{unreachable: true, text: "broke off"}},
		"hanging":              {double.Fault{Kind: double.FaultHang}, meaning{unreachable: true, text: "no answer within 30s"}},
		"slow, but in time":    {double.Fault{Kind: double.FaultSlow, Delay: 29 * time.Second}, meaning{}},
		"slow, and too late":   {double.Fault{Kind: double.FaultSlow, Delay: 31 * time.Second}, meaning{unreachable: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, double.Options{})
				s.add(t, double.NewSession{ID: "devin-a"})
				if _, err := s.client.Queue(t.Context(), s.outpost.ID); err != nil {
					t.Fatal(err) // and the connection is a used one now
				}
				s.fault(t, c.fault)
				calls := map[string]func() error{
					"queue":    func() error { _, err := s.client.Queue(t.Context(), s.outpost.ID); return err },
					"outposts": func() error { _, err := s.client.Outposts(t.Context()); return err },
				}
				for call, do := range calls {
					sent := time.Now()
					err := do()
					good := c.want == meaning{}
					if (err == nil) != good {
						t.Fatalf("%s: %v", call, err)
					}
					// On a used connection net/http itself may ask a second time.
					if waited := time.Since(sent); waited > 30*time.Second {
						t.Errorf("%s: answered after %s", call, waited)
					}
					text := fmt.Sprint(err)
					got := meaning{outpost.IsRejected(err), outpost.IsNotFound(err), outpost.IsUnreachable(err), outpost.RetryAfter(err), c.want.text}
					if got != c.want || !strings.Contains(text, c.want.text) {
						t.Errorf("%s: got %+v for %v", call, got, err)
					}
					if strings.Contains(text, token) || strings.Contains(text, "\n") {
						t.Errorf("%s: the text is %q", call, text)
					}
				}
				s.ClearFaults()
				if _, err := s.client.Queue(t.Context(), s.outpost.ID); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestTheTokenIsRejectedFromAMomentOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, double.Options{Tokens: []string{token}})
		s.fault(t, double.Fault{Kind: double.FaultStatus, Status: 401, From: time.Now().Add(time.Minute)})
		poll := func() error { _, err := s.client.Queue(t.Context(), s.outpost.ID); return err }
		if err := poll(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := poll(); !outpost.IsRejected(err) {
			t.Errorf("after the moment: %v", err)
		}
		s.ClearFaults()
		s.SetTokens([]string{"another"}, nil)
		if err := poll(); !outpost.IsRejected(err) {
			t.Errorf("after the rotation: %v", err)
		}
	})
}

func TestAnAPIThatIsAway(t *testing.T) {
	client := outpost.New(outpost.Options{
		APIURL: "http://127.0.0.1",
		Token:  func(context.Context) (string, error) { return token, nil },
		HTTP: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("connection refused while sending %s", token)
		})},
	})
	_, err := client.Queue(t.Context(), "o")
	if !outpost.IsUnreachable(err) || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestACancelledCallSaysNothingAboutTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, double.Options{})
		s.fault(t, double.Fault{Kind: double.FaultHang})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := s.client.Queue(ctx, s.outpost.ID)
		if err == nil || outpost.IsUnreachable(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestATokenThatCannotBeHad(t *testing.T) {
	broken := errors.New("token_command: exit code 3")
	for name, c := range map[string]struct {
		token func(context.Context) (string, error)
		want  error
	}{
		"none":    {nil, outpost.ErrNoToken},
		"empty":   {func(context.Context) (string, error) { return " \n", nil }, outpost.ErrNoToken},
		"failing": {func(context.Context) (string, error) { return "", broken }, broken},
	} {
		client := outpost.New(outpost.Options{APIURL: "http://127.0.0.1:1", Token: c.token})
		if _, err := client.Outposts(t.Context()); !errors.Is(err, c.want) || outpost.IsUnreachable(err) || outpost.IsRejected(err) {
			t.Errorf("%s: %v", name, err)
		}
		client.Close()
	}
}

func TestAWrongURLIsReportedByEveryCall(t *testing.T) {
	client := outpost.New(outpost.Options{APIURL: "https://me:hunter2@x", Token: func(context.Context) (string, error) { return token, nil }})
	defer client.Close()
	_, err := client.Outposts(t.Context())
	if err == nil || strings.Contains(err.Error(), "hunter2") || outpost.IsUnreachable(err) {
		t.Errorf("got %v", err)
	}
}
