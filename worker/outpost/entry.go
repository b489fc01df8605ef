package outpost

import (
	"encoding/json"
	"time"
)

// Words of the queue (facts outposts.md 2.2). The API may use others: an
// unknown status means "live, state unknown", never ended.
const (
	PhasePending = "pending"
	PhaseClaimed = "claimed"

	StatusPending    = "pending"
	StatusRunning    = "running"
	StatusSuspended  = "suspended"
	StatusTerminated = "terminated"

	KindNew    = "new"
	KindResume = "resume"
)

// Entry is one session in an outpost's queue. It holds no secret: the connect
// token of a claim is never decoded. Words are lower case; what the answer
// left out or spelled in an unknown way is empty or zero.
type Entry struct {
	SessionID string
	OutpostID string
	Kind      string // KindNew, KindResume
	Platform  string // linux, macos, windows
	Phase     string // state of the queue's row
	Acceptor  string // who holds it; empty: nobody
	Deadline  time.Time
	Status    string // of the session; independent of Phase
	Created   time.Time
	Updated   time.Time
}

// UnmarshalJSON reads an entry as the API writes it and fails only for what is
// no JSON object.
func (e *Entry) UnmarshalJSON(raw []byte) error {
	o := asObject(raw)
	if o == nil {
		return errNotJSON
	}
	metadata, spec, status := o.object("metadata"), o.object("spec"), o.object("status")
	*e = Entry{
		SessionID: metadata.text("session_id"),
		OutpostID: metadata.text("outpost_id", "pool_id"),
		Created:   metadata.time("created_at"),
		Updated:   metadata.time("updated_at"),
		Kind:      spec.word("kind"),
		Platform:  spec.word("platform"),
		Phase:     status.word("phase"),
		Acceptor:  status.text("acceptor_id"),
		Deadline:  status.time("claim_deadline"),
		Status:    status.word("session_status"),
	}
	return nil
}

// Claimed reports whether somebody holds the session. A row with a holder and
// a phase that we do not know counts: busy is the safe reading. A deadline in
// the past changes nothing, since a live session stays with its holder (facts
// outposts.md 1.8).
func (e Entry) Claimed() bool {
	return e.Phase == PhaseClaimed || e.Acceptor != "" && e.Phase != PhasePending
}

// Terminated reports whether the session is over.
func (e Entry) Terminated() bool { return e.Status == StatusTerminated }

// Suspended reports whether the session reads as asleep. It has been seen for
// a moment in live sessions: believe three readings in a row (facts 1.7).
func (e Entry) Suspended() bool { return e.Status == StatusSuspended }

// Claimable reports whether a worker of this platform should take the row:
// pending, and no leftover of a release, which says suspended or terminated
// (facts 2.2). An empty platform, of the row or of the question, fits all.
func (e Entry) Claimable(platform string) bool {
	fits := platform == "" || e.Platform == "" || e.Platform == platform
	return fits && e.SessionID != "" && e.Phase == PhasePending && !e.Suspended() && !e.Terminated()
}

// Outpost is a named queue of sessions.
type Outpost struct {
	ID           string
	AccountID    string
	Name         string // unique per account
	Platform     string // linux, macos, windows; empty: the default
	Description  string
	AllowedOrgs  []string // nil: all of the account
	QueueDepth   int      // pending, unclaimed; may count leftovers; -1: not told
	ActiveClaims int      // unexpired; -1: not told
	Created      time.Time
}

// UnmarshalJSON reads an outpost as the API writes it and fails only for what
// is no JSON object.
func (o *Outpost) UnmarshalJSON(raw []byte) error {
	in := asObject(raw)
	if in == nil {
		return errNotJSON
	}
	metadata, spec, status := in.object("metadata"), in.object("spec"), in.object("status")
	*o = Outpost{
		ID:           metadata.text("outpost_id", "pool_id"),
		AccountID:    metadata.text("account_id"),
		Created:      metadata.time("created_at"),
		Name:         spec.text("name"),
		Platform:     spec.word("platform"),
		Description:  spec.text("description"),
		AllowedOrgs:  spec.texts("allowed_org_ids"),
		QueueDepth:   status.count("queue_depth"),
		ActiveClaims: status.count("active_claims"),
	}
	return nil
}

func decodeOutpost(body []byte) (Outpost, error) {
	var o Outpost
	if err := json.Unmarshal(body, &o); err != nil {
		return Outpost{}, errNotJSON
	}
	if o.ID == "" {
		return Outpost{}, errNoID
	}
	return o, nil
}
