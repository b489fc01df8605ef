package outpost

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	devinsPath = "/opbeta/outposts/devins"
	pageSize   = "200" // the most the API gives (facts outposts.md 2.3)
	pageLimit  = 100   // 20,000 rows; beyond that something is wrong with the list
)

// Queue is what one poll saw: every session of one outpost, each once.
type Queue struct {
	// At is when the first request was sent: whatever the answer does not
	// show had not happened by then, or is over. For "an answer at least 2 s
	// newer than the STOP" compare the STOP with At.
	At      time.Time
	Entries []Entry // in the API's order, oldest change first
	// Unreadable counts rows that name neither a session nor a holder. With
	// any, the absence of a claim proves nothing.
	Unreadable int
}

// Queue polls once for the whole pool: all sessions of the outpost, all pages.
// An error means that nothing is known, not even in part.
//
// It reads one list without a phase filter instead of a claimed and a pending
// one. A row that changes while we page moves to the end of the order
// (updated_at, id), so one list shows it at least once, and the last reading
// wins; between two filtered lists a row that changes its phase can slip
// through both, and a busy worker would look idle. It is also half the calls
// of something that runs every 5 s (facts outposts.md 1.8), and the pending
// rows are needed anyway, for scaling.
func (c *Client) Queue(ctx context.Context, outpostID string) (Queue, error) {
	q := Queue{At: time.Now()}
	var rows []json.RawMessage
	err := c.pages(func(cursor string) (page, error) {
		query := url.Values{"outpost": {outpostID}, "first": {pageSize}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		return c.page(ctx, call{op: "read the queue", method: http.MethodGet, path: devinsPath, query: query, role: machineRole})
	}, func(row json.RawMessage) { rows = append(rows, row) }, "read the queue")
	if api := (*APIError)(nil); errors.As(err, &api) && api.Status == http.StatusNotFound {
		api.Hint = "is the outpost gone? pool outpost ls lists what there is"
	}
	if err != nil {
		return Queue{}, err
	}
	q.Entries, q.Unreadable = upsert(rows, outpostID)
	return q, nil
}

// upsert decodes the rows, keeps the newest of each session, and drops what
// belongs to another outpost: an API that does not know our filter's name
// would answer with the whole account.
func upsert(rows []json.RawMessage, outpostID string) (entries []Entry, unreadable int) {
	newest := map[string]int{} // session id to index in entries
	for _, raw := range rows {
		var e Entry
		if json.Unmarshal(raw, &e) != nil || e.SessionID == "" && e.Acceptor == "" {
			unreadable++
			continue
		}
		if e.OutpostID != "" && outpostID != "" && e.OutpostID != outpostID {
			continue
		}
		if e.SessionID == "" { // a holder of something: kept, so that it counts as busy
			entries = append(entries, e)
			continue
		}
		at, seen := newest[e.SessionID]
		switch {
		case !seen:
			newest[e.SessionID] = len(entries)
			entries = append(entries, e)
		case !e.Updated.Before(entries[at].Updated):
			entries[at] = e
		}
	}
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].Updated.Before(entries[j].Updated) })
	return entries, unreadable
}

// Claimed returns what this acceptor holds, whatever its session's status;
// what counts as busy is for the planner (design §7).
func (q Queue) Claimed(acceptor string) []Entry {
	return q.where(func(e Entry) bool { return e.Claimed() && e.Acceptor == acceptor })
}

// ClaimedIn returns what any acceptor with this prefix holds: with
// "<pool>-<uid>-" everything of one pool.
func (q Queue) ClaimedIn(prefix string) []Entry {
	return q.where(func(e Entry) bool { return e.Claimed() && strings.HasPrefix(e.Acceptor, prefix) })
}

// Claimable returns the sessions that a worker of this platform could take
// now; an empty platform means any. Leftovers are not among them.
func (q Queue) Claimable(platform string) []Entry {
	return q.where(func(e Entry) bool { return e.Claimable(platform) })
}

func (q Queue) where(wanted func(Entry) bool) []Entry {
	var out []Entry
	for _, e := range q.Entries {
		if wanted(e) {
			out = append(out, e)
		}
	}
	return out
}

// page gets and decodes one page of a list.
func (c *Client) page(ctx context.Context, k call) (page, error) {
	body, err := c.do(ctx, k)
	if err != nil {
		return page{}, err
	}
	p, err := decodePage(body)
	if err != nil {
		return page{}, &APIError{Op: k.op, Status: http.StatusOK, Err: err, Hint: "is something between us and the API? check the API URL and the proxy"}
	}
	return p, nil
}

// pages walks a list to its end: no next page, no cursor, or a cursor that was
// there before, since a full last page claims a next one (facts 2.3).
func (c *Client) pages(get func(cursor string) (page, error), each func(json.RawMessage), op string) error {
	seen := map[string]bool{"": true}
	cursor := ""
	for range pageLimit {
		p, err := get(cursor)
		if err != nil {
			return err
		}
		for _, item := range p.items {
			each(item)
		}
		if !p.more || seen[p.cursor] {
			return nil
		}
		seen[p.cursor] = true
		cursor = p.cursor
	}
	return &APIError{Op: op, Status: http.StatusOK, Err: errTooMany}
}

// Session returns one entry. IsNotFound when it is over or suspended.
func (c *Client) Session(ctx context.Context, id string) (Entry, error) {
	k := call{op: "read session " + strconv.Quote(id), method: http.MethodGet, path: devinsPath + "/" + url.PathEscape(id), role: machineRole}
	body, err := c.do(ctx, k)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if json.Unmarshal(body, &e) != nil || e.SessionID == "" {
		return Entry{}, &APIError{Op: k.op, Status: http.StatusOK, Err: errNotJSON}
	}
	return e, nil
}

// Outcome is what became of a claim that we asked to give up.
type Outcome string

const (
	Released  Outcome = "released"   // it was ours and is pending again
	NotQueued Outcome = "not queued" // 404: the session is over or suspended
	NotHeld   Outcome = "not held"   // 409: this acceptor does not hold it (any more)
)

// Release gives up an acceptor's claim on a session, so that another worker
// can take it. Call it only when the worker is surely dead. A session that is
// not in the queue (404) or not held by this acceptor (409) is success as
// well: there is nothing left to give up (facts outposts.md 2.1).
func (c *Client) Release(ctx context.Context, sessionID, acceptor string) error {
	_, err := c.ReleaseClaim(ctx, sessionID, acceptor)
	return err
}

// ReleaseClaim is Release that tells which of the good ends it was.
func (c *Client) ReleaseClaim(ctx context.Context, sessionID, acceptor string) (Outcome, error) {
	_, err := c.do(ctx, call{
		op:     "release session " + strconv.Quote(sessionID),
		method: http.MethodPost,
		path:   devinsPath + "/" + url.PathEscape(sessionID) + "/release",
		body:   map[string]string{"acceptor_id": acceptor},
		role:   machineRole,
	})
	switch statusOf(err) {
	case http.StatusNotFound:
		return NotQueued, nil
	case http.StatusConflict:
		return NotHeld, nil
	}
	if err != nil {
		return "", err
	}
	return Released, nil
}
