package control

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// send makes one request to a fresh handler and reads its Problem, if any.
func send(t testing.TB, b Backend, edit func(*http.Request), method, path, body string) (int, Problem) {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	NewHandler(b, Options{}).ServeHTTP(w, r)
	var p Problem
	if w.Code >= 400 {
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Code == "" || p.Error == "" {
			t.Errorf("%s %s: status %d with no Problem: %q", method, path, w.Code, w.Body)
		}
	}
	return w.Code, p
}

func TestRefusals(t *testing.T) {
	long := `{"workers":1,"x":"` + strings.Repeat("y", maxBody) + `"}`
	for _, c := range []struct {
		name, method, path, body string
		edit                     func(*http.Request)
		status                   int
		says                     string
	}{
		{"a web page", "GET", "/v1/pool", "", func(r *http.Request) { r.Header.Set("Origin", "http://localhost") }, 403, "web pages"},
		{"a web page's fetch", "POST", "/v1/down", "{}", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 403, "web pages"},
		{"a rebound name", "GET", "/v1/pool", "", func(r *http.Request) { r.Host = "evil.example" }, 403, "host"},
		{"a form", "POST", "/v1/down", "{}", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400, "JSON"},
		{"an unknown path", "GET", "/v2/pool", "", nil, 404, "/v2/pool"},
		{"a wrong method", "DELETE", "/v1/pool", "", nil, 405, "use GET"},
		{"an unknown field", "POST", "/v1/down", `{"nwo":true}`, nil, 400, "nwo"},
		{"a second value", "POST", "/v1/down", `{} {}`, nil, 400, "follows"},
		{"no body", "POST", "/v1/scale", "", nil, 400, "empty"},
		{"a long body", "POST", "/v1/scale", long, nil, 413, "longer"},
		{"a negative size", "POST", "/v1/scale", `{"workers":-1}`, nil, 400, "negative"},
		{"for and pin", "POST", "/v1/scale", `{"workers":1,"for":1,"pin":true}`, nil, 400, "exclude"},
		{"an unknown parameter", "GET", "/v1/logs?tial=5", "", nil, 400, "tial"},
		{"a bad number", "GET", "/v1/logs?tail=-2", "", nil, 400, "tail"},
		{"a bad time", "GET", "/v1/logs?since=yesterday", "", nil, 400, "since"},
		{"a bad cursor", "GET", "/v1/logs?cursor=x", "", nil, 400, "worker=cursor"},
		{"a bad event id", "GET", "/v1/events?follow=true", "", func(r *http.Request) { r.Header.Set("Last-Event-ID", "x") }, 400, "Last-Event-ID"},
		{"exec without a WebSocket", "GET", "/v1/workers/web-0/exec", "", nil, 400, "WebSocket"},
		{"a field to undrain", "POST", "/v1/workers/web-0/undrain", `{"now":true}`, nil, 400, "now"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, p := send(t, &scripted{}, c.edit, c.method, c.path, c.body)
			if status != c.status || !strings.Contains(p.Error+" "+p.Hint, c.says) {
				t.Errorf("%d %q; want %d and %q", status, p.String(), c.status, c.says)
			}
		})
	}
}

func TestAPanicIsAProblem(t *testing.T) {
	if status, p := send(t, &scripted{panics: true}, nil, "GET", "/v1/pool", ""); status != 500 || p.Code != CodeInternal {
		t.Errorf("%d %v", status, p)
	}
}

// FuzzRequests holds that whatever is sent, the handler answers, and every
// answer that is no success is a Problem.
func FuzzRequests(f *testing.F) {
	for _, s := range newServer(&scripted{}, Options{}.withDefaults()).routes() {
		f.Add(s.Method, s.Path, "tail=5&cursor=a%3Db&follow=1", `{"workers":1}`, "1")
	}
	f.Add("POST", "/v1/workers/%2e%2e/restart", "", `{"now":1e99}`, "")
	f.Add("GET", "/v1/../../etc", "%zz", "", "-1")
	f.Fuzz(func(t *testing.T, method, path, query, body, last string) {
		r, err := http.NewRequest(method, "http://localhost/"+strings.TrimPrefix(path, "/"), strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Last-Event-ID", last)
		w := httptest.NewRecorder()
		b := &scripted{pool: fullPool(), lines: []LogLine{{Worker: "w"}}, events: []Event{{ID: 1}}}
		NewHandler(b, Options{}).ServeHTTP(w, r)
		var p Problem
		if w.Code >= 400 && (json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Error == "") {
			t.Errorf("status %d with %q", w.Code, w.Body)
		}
	})
}
