package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

func loadAPI(t testing.TB) (*openapi3.T, routers.Router) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return doc, router
}

func TestFileAndRoutesAgree(t *testing.T) {
	doc, _ := loadAPI(t)
	var inFile, inCode []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			inFile = append(inFile, method+" "+path)
		}
	}
	for _, r := range newServer(&scripted{}, Options{}.withDefaults()).routes() {
		inCode = append(inCode, r.Method+" "+r.Path)
	}
	slices.Sort(inFile)
	slices.Sort(inCode)
	if !slices.Equal(inFile, inCode) {
		t.Errorf("the file has\n%v\nthe code has\n%v", inFile, inCode)
	}
}

// TestSchemasAreTheTypes holds each wire type against its schema: the same
// fields, of the same kinds, required where they are always sent.
func TestSchemasAreTheTypes(t *testing.T) {
	doc, _ := loadAPI(t)
	for _, v := range []any{
		Pool{}, Outpost{}, API{}, Token{}, SizeRule{}, Worker{}, Mark{}, Session{}, Exit{}, Event{}, ServedSession{}, LogLine{},
		ScaleRequest{}, ScaleResult{}, WorkerAction{}, DownRequest{}, Done{}, Problem{}, Size{}, ExecRequest{}, Version{},
	} {
		kind := reflect.TypeOf(v)
		ref := doc.Components.Schemas[kind.Name()]
		if ref == nil {
			t.Errorf("%s has no schema", kind.Name())
			continue
		}
		seen := 0
		for i := range kind.NumField() {
			field := kind.Field(i)
			name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			seen++
			p := ref.Value.Properties[name]
			if p == nil {
				t.Errorf("%s.%s is not in the file", kind.Name(), name)
				continue
			}
			if want := schemaKind(field.Type); !p.Value.Type.Is(want) {
				t.Errorf("%s.%s is %v in the file and %s in the code", kind.Name(), name, p.Value.Type, want)
			}
			if always := rest == ""; always != slices.Contains(ref.Value.Required, name) {
				t.Errorf("%s.%s: always sent %v, required in the file %v", kind.Name(), name, always, !always)
			}
		}
		if seen != len(ref.Value.Properties) {
			t.Errorf("%s has %d fields in the code and %d in the file", kind.Name(), seen, len(ref.Value.Properties))
		}
	}
}

func schemaKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaKind(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return "string"
		}
		return "object"
	case reflect.Map:
		return "object"
	}
	return "integer"
}

// stamp is a time with all digits, as a supervisor's clock gives.
var stamp = time.Date(2026, 12, 1, 3, 0, 0, 123456789, time.UTC)

// fullPool fills every field that a reader may meet.
func fullPool() Pool {
	return Pool{
		Name: "web", UID: "abcd1234", Version: "1", PID: 7, Started: stamp, Now: stamp, Provider: "local", StateDir: "/s",
		State: PoolDegraded, Detail: "1 worker is held", Desired: 2, Running: 1, Busy: 1, Broken: 1, Pending: -1,
		Outpost: Outpost{ID: "outpost_env-1"}, API: API{State: "stale", StaleSince: stamp, LastAnswer: stamp},
		Token: Token{State: "accepted", Source: "the environment"}, SizeRule: SizeRule{Source: "schedule", Until: stamp},
		Workers: []Worker{
			{Name: "web-0", Acceptor: "web-abcd1234-0", State: "busy", Reason: "serves a session", Since: stamp, Health: Healthy,
				Session: &Session{ID: "devin-1", Since: stamp, Stale: true}, Started: stamp, Generation: 1, PID: 9, CPU: 0.5, Memory: 1 << 30, Disk: -1},
			{Name: "web-1", Slot: 1, Acceptor: "web-abcd1234-1", State: "backoff", Reason: "exit code 1", Since: stamp, Health: Broken,
				Marks:    []Mark{{Name: "crash-looping", Reason: "5 failures"}},
				LastExit: &Exit{Code: 1, Known: true, At: stamp, Reason: "exit code 1 after 3 s"}, NextStart: stamp, CPU: -1, Memory: -1, Disk: -1},
		},
	}
}

func emptyPool() Pool {
	p := fullPool()
	p.Workers = nil
	return p
}

// TestAnswersMatchTheFile sends real requests to a real server and holds both
// the request and the answer against the file.
func TestAnswersMatchTheFile(t *testing.T) {
	doc, router := loadAPI(t)
	b := &scripted{pool: fullPool()}
	b.events = []Event{{ID: 1, At: stamp, Kind: "state", Worker: "web-0", From: "idle", To: "busy", Reason: "claimed", Fields: map[string]string{"session": "devin-1"}}}
	b.lines = []LogLine{{Worker: "web-0", At: stamp, Text: "ready \u001b[31m", Cursor: "1"}}
	b.sessions = []ServedSession{{ID: "devin-1", Worker: "web-0", From: stamp}}
	failing := &scripted{err: Fail(CodeConflict, "no", "wait")}
	for _, c := range []struct {
		method, path, body string
		b                  *scripted
		status             int
	}{
		{"GET", "/healthz", "", b, 200},
		{"GET", "/healthz", "", failing, 503},
		{"GET", "/v1/version", "", b, 200},
		{"GET", "/v1/openapi.yaml", "", b, 200},
		{"GET", "/v1/pool", "", b, 200},
		{"GET", "/v1/pool", "", &scripted{pool: emptyPool()}, 200},
		{"GET", "/v1/pool", "", failing, 409},
		{"GET", "/v1/pool?watch=true", "", b, 200},
		{"GET", "/v1/pool?watch=true", "", failing, 409},
		{"GET", "/v1/events?limit=5&worker=web-0&after=0", "", b, 200},
		{"GET", "/v1/events", "", &scripted{}, 200},
		{"GET", "/v1/events?follow=true", "", b, 200},
		{"GET", "/v1/sessions?limit=3", "", b, 200},
		{"GET", "/v1/sessions", "", &scripted{}, 200},
		{"GET", "/v1/logs?worker=web-0&worker=web-1&tail=-1&since=2026-12-01T00:00:00Z&cursor=web-0%3D1", "", b, 200},
		{"GET", "/v1/logs?follow=true", "", b, 200},
		{"GET", "/v1/logs", "", failing, 409},
		{"POST", "/v1/scale", `{"workers":3,"for":60000000000}`, b, 200},
		{"POST", "/v1/scale", `{"workers":3}`, failing, 409},
		{"POST", "/v1/down", `{"now":true}`, b, 200},
		{"POST", "/v1/down", "", b, 200},
		{"POST", "/v1/workers/web-0/restart", `{"force":true}`, b, 200},
		{"POST", "/v1/workers/web-0/drain", "", b, 200},
		{"POST", "/v1/workers/web-0/undrain", "{}", b, 200},
		{"POST", "/v1/workers/web-0/undrain", "{}", failing, 409},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			srv := httptest.NewServer(hostFor(NewHandler(c.b, Options{Version: "1"})))
			defer srv.Close()
			req, _ := http.NewRequest(c.method, srv.URL+c.path, strings.NewReader(c.body))
			if c.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			checkExchange(t, doc, router, req, c.status)
		})
	}
}

// hostFor lets a test server be reached by its number.
func hostFor(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = host
		h.ServeHTTP(w, r)
	})
}

func checkExchange(t *testing.T, doc *openapi3.T, router routers.Router, req *http.Request, status int) {
	t.Helper()
	asked := req.Clone(t.Context())
	asked.URL.Host, asked.Host = "localhost", "localhost"
	if req.GetBody != nil {
		asked.Body, _ = req.GetBody()
	}
	route, params, err := router.FindRoute(asked)
	if err != nil {
		t.Fatal(err)
	}
	input := &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route}
	if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
		t.Errorf("the request: %v", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", res.StatusCode, status, body)
	}
	kind := res.Header.Get("Content-Type")
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: status, Header: res.Header}
	out.SetBodyBytes(body)
	switch kind {
	case "text/event-stream":
		out.Options = &openapi3filter.Options{ExcludeResponseBody: true}
		checkEvents(t, doc, body)
	case "application/x-ndjson":
		out.Options = &openapi3filter.Options{ExcludeResponseBody: true}
		checkRows(t, doc, body)
	}
	if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
		t.Errorf("the answer: %v\n%s", err, body)
	}
	if route.Operation.Responses.Status(status) != nil && route.Operation.Responses.Status(status).Value.Content[kind] == nil {
		t.Errorf("an answer of type %s is not in the file", kind)
	}
}

func checkEvents(t *testing.T, doc *openapi3.T, body []byte) {
	t.Helper()
	schema := map[string]string{"pool": "Pool", "event": "Event", "log": "LogLine", "problem": "Problem"}
	r, n := newEventReader(bytes.NewReader(body)), 0
	for {
		e, err := r.next()
		if err != nil {
			break
		}
		n++
		checkValue(t, doc, schema[e.name], e.data)
	}
	if n == 0 {
		t.Errorf("no event in %q", body)
	}
}

func checkRows(t *testing.T, doc *openapi3.T, body []byte) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		checkValue(t, doc, "LogRow", lines.Bytes())
	}
}

func checkValue(t *testing.T, doc *openapi3.T, schema string, text []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if err := doc.Components.Schemas[schema].Value.VisitJSON(v); err != nil {
		t.Errorf("%s: %v", schema, err)
	}
}
