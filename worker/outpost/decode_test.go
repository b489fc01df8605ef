package outpost

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTimesAreReadInEveryForm(t *testing.T) {
	want := time.Date(2026, 10, 1, 12, 30, 0, 250e6, time.UTC)
	whole := want.Truncate(time.Second)
	for _, c := range []struct {
		json string
		want time.Time
	}{
		{"1790857800.25", want},
		{"1790857800", whole},
		{"1790857800250", want},
		{`"1790857800"`, whole},
		{`"2026-10-01T12:30:00.25Z"`, want},
		{`"2026-10-01T14:30:00.25+02:00"`, want},
		{`"2026-10-01T12:30:00.25"`, want},
		{`"2026-10-01 12:30:00.25"`, want},
		{`"2026-10-01 14:30:00+02:00"`, whole},
		{"null", time.Time{}},
		{"0", time.Time{}},
		{"-5", time.Time{}},
		{"1e300", time.Time{}},
		{`"NaN"`, time.Time{}},
		{`"soon"`, time.Time{}},
		{`{"seconds":1}`, time.Time{}},
		{"true", time.Time{}},
	} {
		if got := (object{"at": json.RawMessage(c.json)}).time("at"); !got.Equal(c.want) {
			t.Errorf("%s: got %s, want %s", c.json, got, c.want)
		}
	}
}

func TestEntriesAreReadTolerantly(t *testing.T) {
	at := time.Unix(1790857800, 0).UTC()
	for name, c := range map[string]struct {
		json string
		want Entry
	}{
		"as documented": {
			`{"metadata":{"session_id":"devin-1","outpost_id":"o","created_at":1790857800,"updated_at":1790857800},
			  "spec":{"kind":"resume","platform":"linux","remote_binary_sha":null,"network_policy":{"enabled":true,"allow":[]}},
			  "status":{"phase":"claimed","acceptor_id":"web-ab-0","claim_deadline":1790857800,"session_status":"running","connect_token":"secret"}}`,
			Entry{SessionID: "devin-1", OutpostID: "o", Kind: KindResume, Platform: "linux", Phase: PhaseClaimed,
				Acceptor: "web-ab-0", Deadline: at, Status: StatusRunning, Created: at, Updated: at},
		},
		"of June, with pool_id":   {`{"metadata":{"session_id":"devin-1","pool_id":"pool_1"}}`, Entry{SessionID: "devin-1", OutpostID: "pool_1"}},
		"both ids: the newer one": {`{"metadata":{"session_id":"d","pool_id":"old","outpost_id":"new"}}`, Entry{SessionID: "d", OutpostID: "new"}},
		"null sections":           {`{"metadata":{"session_id":"d"},"spec":null,"status":null}`, Entry{SessionID: "d"}},
		"null fields":             {`{"metadata":{"session_id":"d","outpost_id":null},"status":{"acceptor_id":null,"claim_deadline":null}}`, Entry{SessionID: "d"}},
		"other types":             {`{"metadata":{"session_id":7},"spec":[],"status":{"phase":{},"session_status":["x"]}}`, Entry{SessionID: "7"}},
		"words shouted":           {`{"metadata":{"session_id":"d"},"status":{"phase":"PENDING","session_status":" Running "}}`, Entry{SessionID: "d", Phase: PhasePending, Status: StatusRunning}},
		"unknown words":           {`{"metadata":{"session_id":"d"},"status":{"phase":"parked","session_status":"rehydrating"}}`, Entry{SessionID: "d", Phase: "parked", Status: "rehydrating"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got Entry
			if err := json.Unmarshal([]byte(c.json), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatARowMeans(t *testing.T) {
	for name, c := range map[string]struct {
		entry              Entry
		claimed, claimable bool
	}{
		"pending":                        {Entry{Phase: PhasePending, Status: StatusPending}, false, true},
		"pending, the cloud has begun":   {Entry{Phase: PhasePending, Status: StatusRunning}, false, true},
		"pending, unknown status":        {Entry{Phase: PhasePending, Status: "rehydrating"}, false, true},
		"leftover, terminated":           {Entry{Phase: PhasePending, Status: StatusTerminated}, false, false},
		"leftover, suspended":            {Entry{Phase: PhasePending, Status: StatusSuspended}, false, false},
		"claimed":                        {Entry{Phase: PhaseClaimed, Acceptor: "a", Status: StatusRunning}, true, false},
		"claimed, past its deadline":     {Entry{Phase: PhaseClaimed, Acceptor: "a", Deadline: time.Unix(1, 0)}, true, false},
		"claimed, terminated":            {Entry{Phase: PhaseClaimed, Acceptor: "a", Status: StatusTerminated}, true, false},
		"unknown phase with a holder":    {Entry{Phase: "handover", Acceptor: "a"}, true, false},
		"unknown phase without a holder": {Entry{Phase: "parked"}, false, false},
		"no phase":                       {Entry{}, false, false},
		"pending with a stale holder":    {Entry{Phase: PhasePending, Acceptor: "a"}, false, true},
		"for another platform":           {Entry{Phase: PhasePending, Platform: "windows"}, false, false},
		"for our platform":               {Entry{Phase: PhasePending, Platform: "linux"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.entry.SessionID = "devin-1"
			if got := c.entry.Claimed(); got != c.claimed {
				t.Errorf("claimed: got %v", got)
			}
			if got := c.entry.Claimable("linux"); got != c.claimable {
				t.Errorf("claimable: got %v", got)
			}
		})
	}
}

func TestUpsertKeepsTheNewestOfEachSession(t *testing.T) {
	row := func(id, outpost, phase string, updated int) json.RawMessage {
		raw, _ := json.Marshal(map[string]any{
			"metadata": map[string]any{"session_id": id, "outpost_id": outpost, "updated_at": updated},
			"status":   map[string]any{"phase": phase, "acceptor_id": "a"},
		})
		return raw
	}
	entries, unreadable := upsert([]json.RawMessage{
		row("devin-1", "o", PhasePending, 1000),
		row("devin-2", "o", PhaseClaimed, 1001),
		row("devin-1", "o", PhaseClaimed, 1005), // changed while we paged
		row("devin-2", "o", PhasePending, 900),  // a stale page
		row("devin-3", "other", PhaseClaimed, 1002),
		row("", "o", PhaseClaimed, 1003), // a holder of something
		json.RawMessage(`"nonsense"`),
		json.RawMessage(`{"metadata":{}}`),
	}, "o")
	var got []string
	for _, e := range entries {
		got = append(got, e.SessionID+" "+e.Phase)
	}
	if diff := cmp.Diff([]string{"devin-2 claimed", " claimed", "devin-1 claimed"}, got); diff != "" {
		t.Error(diff)
	}
	if unreadable != 2 {
		t.Errorf("unreadable: got %d, want 2", unreadable)
	}
}

func TestAPageWithoutAListIsNoEmptyPage(t *testing.T) {
	for _, body := range []string{``, `null`, `{}`, `[]`, `{"items":null}`, `{"items":{}}`, `<html>`, `"items"`, `{"items":[]`} {
		if _, err := decodePage([]byte(body)); err == nil {
			t.Errorf("%q passed for a page", body)
		}
	}
	for body, want := range map[string]page{
		`{"items":[]}`: {},
		`{"items":[],"cursor":"c","has_next_page":true}`:        {cursor: "c", more: true},
		`{"items":[],"end_cursor":5,"has_next_page":"true"}`:    {cursor: "5", more: true},
		`{"items":[],"cursor":null,"has_next_page":null,"x":1}`: {},
	} {
		got, err := decodePage([]byte(body))
		if err != nil || got.cursor != want.cursor || got.more != want.more {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ in, want, note, err string }{
		{"", DefaultURL, "", ""},
		{"https://api.devin.ai", DefaultURL, "", ""},
		{"https://api.devin.ai/", DefaultURL, "", ""},
		{" https://API.devin.ai/opbeta/ ", DefaultURL, `dropped "/opbeta"`, ""},
		{"https://api.devin.ai/opbeta/outposts", DefaultURL, `dropped "/opbeta/outposts"`, ""},
		{"https://api.devin.ai/v3?x=1", DefaultURL, "dropped", ""},
		{"api.devin.ai", DefaultURL, "took https://", ""},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", "", ""},
		{"http://[::1]:8080/opbeta", "http://[::1]:8080", "dropped", ""},
		{"http://proxy.corp", "http://proxy.corp", "unencrypted", ""},
		{"https://me:hunter2@api.devin.ai", "", "", "never into the URL"},
		{"ftp://api.devin.ai", "", "", "only https and http"},
		{"https://", "", "", "names no host"},
		{"https://a b:c", "", "", "cannot be read"},
	} {
		got, note, err := NormalizeURL(c.in)
		if got != c.want || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%q: got %q with note %q", c.in, got, note)
		}
		if text := errText(err); !strings.Contains(text, c.err) || (text == "") != (c.err == "") || strings.Contains(text, "hunter2") {
			t.Errorf("%q: got error %q, want %q", c.in, text, c.err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestOutpostIDs(t *testing.T) {
	for id, want := range map[string]bool{
		"outpost_env-0123456789abcdef0123456789ABCDEF":  true,
		"outpost_env-0123456789abcdef0123456789abcde":   false,
		"outpost_env-0123456789abcdef0123456789abcdeg":  false,
		"outpost_env-0123456789abcdef0123456789abcdef0": false,
		"my-outpost": false,
		"":           false,
	} {
		if IsOutpostID(id) != want {
			t.Errorf("%q: want %v", id, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 1.5 ": 1500 * time.Millisecond, "-3": 0, "NaN": 0, "soon": 0,
		"99999999999999999999": retryAfterLimit,
		"Inf":                  retryAfterLimit,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
		now.Add(9000 * time.Hour).Format(http.TimeFormat): retryAfterLimit,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: got %s, want %s", header, got, want)
		}
	}
}

func TestDetails(t *testing.T) {
	for body, want := range map[string]string{
		`{"detail":"Invalid token"}`: "Invalid token",
		`{"detail":[{"loc":["query","first"],"msg":"too big"},{"msg":"other"}]}`: "query.first: too big; other",
		`{"detail":{"code":7}}`:                `{"code":7}`,
		`{"detail":null}`:                      "",
		`<html>`:                               "",
		`{"detail":"a\u001b[31m\nb\u202e  c"}`: "a[31m b c",
	} {
		if got := clean(detailOf([]byte(body))); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	if got := clean(strings.Repeat("ä", 2000)); len([]rune(got)) != detailLimit+1 || !strings.HasSuffix(got, "…") {
		t.Errorf("a long detail has %d characters", len([]rune(got)))
	}
}
