// Package control is the HTTP API of a running supervisor: its wire types,
// its server and its client. The command line and the monitor use nothing
// else. openapi.yaml describes it and the tests hold the two together.
package control

import "time"

// Pool is what GET /v1/pool answers: the pool in a sentence, then the workers.
type Pool struct {
	Name       string    `json:"name"`
	UID        string    `json:"uid"`
	Version    string    `json:"version"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Now        time.Time `json:"now"` // the supervisor's clock, for ages
	Provider   string    `json:"provider"`
	StateDir   string    `json:"state_dir"`
	ConfigFile string    `json:"config_file,omitempty"` // empty: run from flags and environment

	State  PoolState `json:"state"`
	Detail string    `json:"detail"` // one sentence: "3 sessions wait, all 4 workers busy"

	Desired      int `json:"desired"`
	Running      int `json:"running"` // idle, busy, draining with a living worker
	Busy         int `json:"busy"`
	Idle         int `json:"idle"`
	Provisioning int `json:"provisioning"` // creating to starting
	Broken       int `json:"broken"`       // backoff, held, crash-looping, unreachable
	Pending      int `json:"pending"`      // claimable sessions that wait; -1 when unknown

	Outpost  Outpost  `json:"outpost"`
	API      API      `json:"api"`
	Token    Token    `json:"token"`
	SizeRule SizeRule `json:"size_rule"`
	Notes    []string `json:"notes,omitempty"` // what an operator should know, one line each

	Workers []Worker `json:"workers"`
}

// PoolState is the pool's state in a word.
type PoolState string

const (
	PoolStarting PoolState = "starting"
	PoolRunning  PoolState = "running"
	PoolDegraded PoolState = "degraded" // some slot is broken, or nothing can be recorded
	PoolHeld     PoolState = "held"     // the token is rejected: nothing starts
	PoolDraining PoolState = "draining" // down was asked for; waiting for sessions
	PoolStopping PoolState = "stopping"
)

// Outpost is the queue the workers serve. Platform is empty when not known.
type Outpost struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Platform string `json:"platform,omitempty"`
}

// API tells whether Devin Cloud answers.
type API struct {
	State      string    `json:"state"` // "ok", "stale", "unauthorized", "off" (no token of our own)
	StaleSince time.Time `json:"stale_since,omitzero"`
	Detail     string    `json:"detail,omitempty"`
	LastAnswer time.Time `json:"last_answer,omitzero"`
}

// Token tells whether the token is accepted; never the token.
type Token struct {
	State  string `json:"state"`  // "accepted", "rejected", "unchecked"
	Source string `json:"source"` // "DEVIN_OUTPOSTS_TOKEN in the environment", "the file …"
	Detail string `json:"detail,omitempty"`
}

// SizeRule says what rules the desired size and until when.
type SizeRule struct {
	Source string    `json:"source"` // "config", "scale", "pin", "schedule"
	Until  time.Time `json:"until,omitzero"`
	Detail string    `json:"detail,omitempty"`
}

// Worker is one slot as people see it.
type Worker struct {
	Name     string `json:"name"` // "web-0"
	Slot     int    `json:"slot"`
	Acceptor string `json:"acceptor_id"`

	State  string    `json:"state"` // a word of design §4
	Goal   string    `json:"goal"`  // what is wanted of it: "serve", "restart", "replace", "rest" (drained), "retire" (scaled away)
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Marks  []Mark    `json:"marks,omitempty"`
	Health Health    `json:"health"`

	Session *Session `json:"session,omitempty"`

	RestartsTotal  int       `json:"restarts_total"`  // never goes down
	RestartsLately int       `json:"restarts_lately"` // remembered failures
	LastExit       *Exit     `json:"last_exit,omitempty"`
	NextStart      time.Time `json:"next_start,omitzero"` // in backoff
	Started        time.Time `json:"started,omitzero"`    // of the living worker; its uptime is now − started
	Waits          string    `json:"waits,omitempty"`     // what it waits for and until when: a drain, a limit

	Generation int       `json:"generation"`
	Sandbox    string    `json:"sandbox_id,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Expires    time.Time `json:"expires,omitzero"`
	Workspace  string    `json:"workspace,omitempty"`

	CPU    float64 `json:"cpu"`    // cores in use, -1 when not known
	Memory int64   `json:"memory"` // bytes, -1 when not known
	Disk   int64   `json:"disk"`   // bytes, -1 when not known
	Served int     `json:"sessions_served"`
}

// Mark is a condition beside the state, with its reason: "crash-looping",
// "unreachable", "deaf".
type Mark struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Health is what a tired operator looks at first.
type Health string

const (
	Healthy  Health = "healthy"
	Unproved Health = "unproved" // alive, has never claimed yet
	Unwell   Health = "unwell"   // starting, backing off, draining with a mark
	Broken   Health = "broken"   // held, crash-looping, unreachable
	Unsure   Health = "unknown"  // nothing known right now
)

// Session is the session a worker serves now.
type Session struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"` // first seen with this worker
	Stale bool      `json:"stale,omitempty"`
}

// Exit is how the last worker of a slot ended.
type Exit struct {
	Code   int       `json:"code"`
	Signal int       `json:"signal,omitempty"`
	OOM    bool      `json:"oom,omitempty"`
	Known  bool      `json:"known"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"` // "exit code 1 after 3 s", "killed by signal 9 after 2 h"
}

// Event is one line of the pool's history. ID grows by one.
type Event struct {
	ID     int64             `json:"id"`
	At     time.Time         `json:"at"`
	Worker string            `json:"worker,omitempty"` // empty: about the pool
	Kind   string            `json:"kind"`             // "state", "exit", "session", "scale", "api", "token", "note", …
	From   string            `json:"from,omitempty"`
	To     string            `json:"to,omitempty"`
	Reason string            `json:"reason"`
	Fields map[string]string `json:"fields,omitempty"`
}

// ServedSession is one row of GET /v1/sessions.
type ServedSession struct {
	ID     string    `json:"id"`
	Worker string    `json:"worker"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to,omitzero"` // zero: still with this worker
	End    string    `json:"end,omitempty"`
}

// LogLine is one line of a log. Cursor, given back, goes on after this line.
type LogLine struct {
	Worker string    `json:"worker"` // "supervisor" for the supervisor's own
	At     time.Time `json:"at"`
	Text   string    `json:"text"`
	Cursor string    `json:"cursor,omitempty"`
}

// EventQuery chooses events. Follow goes on until the context ends.
type EventQuery struct {
	Worker string
	After  int64 // only ids above
	Limit  int   // the newest so many; 0: all kept
	Follow bool
}

// LogQuery chooses log lines.
type LogQuery struct {
	Workers    []string // empty: all
	Tail       int      // the last so many lines per worker; -1: all kept
	Since      time.Time
	Session    string
	Supervisor bool
	Follow     bool
	Cursors    map[string]string // worker to cursor: go on after these, instead of Tail
}

// ScaleRequest asks for a size. For holds it so long; Pin until unpinned by
// another scale. Both zero: until the next firing of a schedule.
type ScaleRequest struct {
	Workers int           `json:"workers"`
	For     time.Duration `json:"for,omitempty"` // nanoseconds
	Pin     bool          `json:"pin,omitempty"`
}

// ScaleResult tells what became of it.
type ScaleResult struct {
	Was     int    `json:"was"`
	Desired int    `json:"desired"`
	Changed bool   `json:"changed"`
	Detail  string `json:"detail"`
}

// WorkerAction is the body of restart, drain and undrain.
type WorkerAction struct {
	Now   bool `json:"now,omitempty"`   // do not wait for the session
	Force bool `json:"force,omitempty"` // restart only: abandon an unreachable identity
}

// DownRequest asks the pool to end.
type DownRequest struct {
	Now   bool `json:"now,omitempty"`
	Leave bool `json:"leave,omitempty"` // end only the supervisor
}

// Done is a plain answer: what was done, in words.
type Done struct {
	Detail string `json:"detail"`
}

// Problem is the body of every answer that is not a success.
type Problem struct {
	Code   string `json:"code"`  // "not_found", "invalid", "conflict", "unavailable", "unauthorized", "forbidden", "internal"
	Error  string `json:"error"` // what and why
	Hint   string `json:"hint,omitempty"`
	Status int    `json:"-"`
}

func (p *Problem) String() string {
	if p.Hint == "" {
		return p.Error
	}
	return p.Error + "; " + p.Hint
}

// Size is a terminal's size in cells.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// ExecRequest opens an exec. Env adds to the worker's environment minus every
// secret. TTY merges both outputs.
type ExecRequest struct {
	Args  []string          `json:"args"`
	Env   map[string]string `json:"env,omitempty"`
	Dir   string            `json:"dir,omitempty"`
	Stdin bool              `json:"stdin,omitempty"`
	TTY   bool              `json:"tty,omitempty"`
	Size  Size              `json:"size,omitzero"`
}

// Version is what GET /v1/version answers.
type Version struct {
	Version string `json:"version"`
	API     string `json:"api"` // "v1"
}
