package control

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// query reads the parameters of a request and remembers the first fault.
// Reading one takes it out, so that what is left at the end is unknown.
type query struct {
	values url.Values
	err    error
}

func queryOf(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.err = Fail(CodeInvalid, "the query cannot be read: "+err.Error(), "")
	}
	return q
}

func (q *query) fault(name, text string) {
	if q.err == nil {
		q.err = Fail(CodeInvalid, fmt.Sprintf("parameter %s: %s", name, text), "/v1/openapi.yaml describes it")
	}
}

func (q *query) list(name string) []string {
	list := q.values[name]
	delete(q.values, name)
	return list
}

func (q *query) string(name string) string {
	list := q.list(name)
	if len(list) > 1 {
		q.fault(name, "given twice")
	}
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (q *query) bool(name string) bool {
	text := q.string(name)
	if text == "" {
		return false
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		q.fault(name, "must be true or false")
	}
	return v
}

// int reads a number of at least least.
func (q *query) int(name string, fallback, least int64) int {
	text := q.string(name)
	if text == "" {
		return int(fallback)
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < least || int64(int(v)) != v {
		q.fault(name, fmt.Sprintf("must be a whole number from %d", least))
		return int(fallback)
	}
	return int(v)
}

func (q *query) time(name string) time.Time {
	text := q.string(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		q.fault(name, "must be a time such as 2026-12-01T03:00:00Z")
	}
	return t
}

// pairs reads repeated name=value parameters.
func (q *query) pairs(name string) map[string]string {
	list := q.list(name)
	if len(list) == 0 {
		return nil
	}
	pairs := make(map[string]string, len(list))
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			q.fault(name, "must be worker=cursor")
			continue
		}
		pairs[key] = value
	}
	return pairs
}

// end returns the first fault; a parameter nobody read is one.
func (q *query) end() error {
	if q.err == nil {
		for name := range q.values {
			q.fault(name, "unknown on this path")
			break
		}
	}
	return q.err
}

// DefaultTail is how many lines per worker a log query without a tail gives.
const DefaultTail = 100

func eventQueryOf(r *http.Request) (EventQuery, error) {
	q := queryOf(r)
	e := EventQuery{
		Worker: q.string("worker"),
		After:  int64(q.int("after", 0, 0)),
		Limit:  q.int("limit", 0, 0),
		Follow: q.bool("follow"),
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		id, err := strconv.ParseInt(last, 10, 64)
		if err != nil || id < 0 {
			q.fault("Last-Event-ID", "must be an event's id")
		}
		// A stream that is resumed goes on where it was; how many it wanted at
		// its first start no longer matters.
		e.After, e.Limit = max(e.After, id), 0
	}
	return e, q.end()
}

// params is the query of the URL that asks for q.
func (q EventQuery) params() url.Values {
	v := url.Values{}
	setIf(v, "worker", q.Worker)
	setInt(v, "after", q.After)
	setInt(v, "limit", int64(q.Limit))
	setBool(v, "follow", q.Follow)
	return v
}

func logQueryOf(r *http.Request) (LogQuery, error) {
	q := queryOf(r)
	l := LogQuery{
		Workers:    q.list("worker"),
		Tail:       q.int("tail", DefaultTail, -1),
		Since:      q.time("since"),
		Session:    q.string("session"),
		Supervisor: q.bool("supervisor"),
		Follow:     q.bool("follow"),
		Cursors:    q.pairs("cursor"),
	}
	return l, q.end()
}

// params is the query of the URL that asks for q.
func (q LogQuery) params() url.Values {
	v := url.Values{"tail": {strconv.Itoa(q.Tail)}}
	if len(q.Workers) > 0 {
		v["worker"] = q.Workers
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	setIf(v, "session", q.Session)
	setBool(v, "supervisor", q.Supervisor)
	setBool(v, "follow", q.Follow)
	for worker, cursor := range q.Cursors {
		v.Add("cursor", worker+"="+cursor)
	}
	return v
}

func setIf(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

func setInt(v url.Values, name string, n int64) {
	if n != 0 {
		v.Set(name, strconv.FormatInt(n, 10))
	}
}

func setBool(v url.Values, name string, b bool) {
	if b {
		v.Set(name, "true")
	}
}
