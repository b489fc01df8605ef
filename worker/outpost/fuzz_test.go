package outpost

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
)

// A row may be anything. Whatever it is, decoding neither panics nor keeps a
// secret, and no row is both held and free.
func FuzzEntry(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"session_id":"devin-1","outpost_id":"o","updated_at":1790857800.5},"status":{"phase":"claimed","acceptor_id":"a","claim_deadline":"2026-10-01T12:30:00Z"}}`,
		`{"metadata":null,"spec":7,"status":[]}`,
		`{"status":{"connect_token":"MARK","gateway_url":"MARK"}}`,
		`[]`, `null`, `{`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e Entry
		if json.Unmarshal(raw, &e) != nil {
			return
		}
		if e.Claimed() && e.Claimable("") {
			t.Fatalf("both held and free: %+v", e)
		}
		if year := e.Deadline.Year(); !e.Deadline.IsZero() && (year < 1970 || year > 33658) {
			t.Fatalf("a deadline in the year %d", year)
		}
	})
}

func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		`{"items":[{"metadata":{"session_id":"devin-1"}}],"cursor":"c","has_next_page":true,"total":1}`,
		`{"items":[],"end_cursor":"e","has_next_page":false}`,
		`{}`, `{"items":null}`, `<html>`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := decodePage(body)
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatal("a page that is no JSON")
		}
		entries, unreadable := upsert(p.items, "")
		if len(entries)+unreadable > len(p.items) {
			t.Fatalf("%d rows became %d entries and %d unreadable", len(p.items), len(entries), unreadable)
		}
		for _, item := range p.items {
			decodeOutpost(item)
		}
	})
}

func FuzzFailure(f *testing.F) {
	f.Add([]byte(`{"detail":"Invalid token cog_secret"}`), "7")
	f.Add([]byte(`{"detail":[{"loc":["a",1],"msg":"\u001b]52;c;x\u0007"}]}`), "Thu, 01 Oct 2026 12:00:00 GMT")
	f.Add([]byte(`{"detail":"cog_\u0000secret"}`), "")
	f.Add([]byte("\xff\xfe<html>"), "1e400")
	f.Fuzz(func(t *testing.T, body []byte, header string) {
		answer := &http.Response{StatusCode: 403, Header: http.Header{"Retry-After": {header}}}
		e := failure(call{op: "read the queue", role: machineRole}, answer, body, "cog_secret")
		text := e.Error()
		if strings.Contains(text, "cog_secret") {
			t.Fatal("the token is in the error")
		}
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("not fit for a terminal: %q", text)
		}
		if e.RetryAfter < 0 || e.RetryAfter > 24*time.Hour {
			t.Fatalf("retry after %s", e.RetryAfter)
		}
	})
}
