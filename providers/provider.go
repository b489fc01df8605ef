// Package providers is the contract that everything which makes sandboxes
// meets, with its error classes, its registry and its wrappers. Only the
// package of a vendor knows that vendor; everything above knows this package.
package providers

import (
	"context"
	"io"
	"maps"
	"time"
)

// Provider makes sandboxes. Implementations are safe for concurrent use.
// Every error has a class (see Class); callers look at nothing else.
type Provider interface {
	// Create makes the sandbox s.Name, or returns the one that has that name:
	// asked twice, it makes one. It returns once the sandbox is asked for and
	// known by name; Info says when it is Running.
	Create(ctx context.Context, s Spec) (Sandbox, error)
	// Open returns the sandbox with this id. NotFound when it surely is gone.
	Open(ctx context.Context, id string) (Sandbox, error)
	// List returns all of this pool's sandboxes and retained workspaces,
	// whoever made them. It may be stale: absence is confirmed by Open.
	List(ctx context.Context, pool string) ([]Info, error)
	// Check looks at what the provider needs, for doctor. Only with probe does
	// it create anything, and then it removes it again.
	Check(ctx context.Context, probe bool) []Finding
}

// Sandbox is one isolated machine, container or directory.
type Sandbox interface {
	// Info never wakes, boots or bills anything. NotFound when it is gone.
	Info(ctx context.Context) (Info, error)
	// Exec runs a command to its end, with the exact exit code. Cancelling ctx
	// ends the command and its children in the sandbox. A lost connection is
	// class Unknown, never exit code 0.
	Exec(ctx context.Context, c Cmd) (Exit, error)
	// Launch starts a process that outlives this program. The same launch id
	// again gives the same process, ended or not; another id while one lives
	// is class Conflict.
	Launch(ctx context.Context, launchID string, c Cmd) (Process, error)
	// Process returns the last launched in this incarnation, ended or not;
	// NotFound when there is none.
	Process(ctx context.Context) (Process, error)
	// Remove returns when the sandbox is really gone; gone already is fine.
	Remove(ctx context.Context, keepWorkspace bool) error
}

// Process is a launched process: the worker.
type Process interface {
	Info(ctx context.Context) (ProcInfo, error)
	// Wait returns at once where there are events, else within one poll. An
	// error means that nothing is known, not that the process ended.
	Wait(ctx context.Context) (Exit, error)
	// Signal reaches the whole tree. Signalling an ended process is fine.
	Signal(ctx context.Context, sig Signal) error
	// Output gives every byte from offset on, then follows until the process
	// has ended and everything is read (io.EOF), or ctx is done. Bytes below an
	// offset given to Discard read as zeros or are gone: nobody asks for them.
	Output(ctx context.Context, offset int64) (io.ReadCloser, error)
}

// Spec is what a sandbox should be.
type Spec struct {
	Name      string // deterministic: <pool>-<uid>-<slot>-g<generation>
	Labels    Labels
	Image     string
	Resources Resources
	Lifetime  time.Duration // 0: the vendor's default
	From      string        // native snapshot to start from; one that cannot be restored is class BadSnapshot
	Fresh     bool          // ignore a retained workspace
	Secrets   []SecretRef   // references into the provider's own secret store
	Epoch     int64         // of the supervisor that asks; see Epocher
}

// Labels name what a sandbox belongs to. Slot and Generation are numbers.
type Labels struct {
	Pool       string `json:"pool"`
	UID        string `json:"uid"`
	Slot       int    `json:"slot"`
	Generation int    `json:"generation"`
	ConfigHash string `json:"config_hash"`
	// Owner says who shares one vendor account, where that matters. May be empty.
	Owner string `json:"owner,omitempty"`
}

// Resources are limits; zero means unlimited or the vendor's default.
type Resources struct {
	CPU    float64 // cores
	Memory int64   // bytes
	Disk   int64   // bytes
	GPU    string  // the vendor's words, such as "1" or "nvidia-l4:1"
}

// SecretRef names a secret in the provider's own store.
type SecretRef struct {
	Env  string // the variable the sandbox sees
	Name string // the secret's name in the vendor's store
	Key  string // the field inside it, where a secret has fields
}

// Cmd is a command in a sandbox. Nothing is inherited: Env is the whole
// environment. What is secret travels in Env and nowhere else.
type Cmd struct {
	Args   []string
	Env    map[string]string
	Dir    string // absolute, or relative to the workspace; empty: the workspace
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer // with TTY everything goes to Stdout
	TTY    bool
	Size   Size
	Resize <-chan Size // may be nil; closing it is fine
}

// WithEnv returns a copy of c with the variable set.
func (c Cmd) WithEnv(name, value string) Cmd {
	env := maps.Clone(c.Env)
	if env == nil {
		env = map[string]string{}
	}
	env[name] = value
	c.Env = env
	return c
}

// Size is a terminal's size in cells.
type Size struct{ Rows, Cols uint16 }

// State is a sandbox's state as its provider tells it.
type State string

const (
	Pending   State = "pending"
	Running   State = "running"
	Suspended State = "suspended"
	Stopped   State = "stopped"
	Gone      State = "gone"
	Unclear   State = "unclear" // a word of the vendor that we do not know
)

// Info is what a provider knows of one sandbox or retained workspace.
type Info struct {
	ID     string // may change over a sandbox's life; records follow it
	Name   string
	Labels Labels
	State  State
	// Incarnation changes when processes were lost though the name stayed.
	Incarnation      string
	SoftEnd, HardEnd time.Time // zero: no such limit
	RenewedByResume  bool
	Workspace        string // absolute path inside the sandbox
	Home             string // the worker's HOME inside the sandbox
	// Cache is a folder of the sandbox outside the workspace that the worker
	// may write; absolute, inside the sandbox. It ends with the sandbox.
	Cache string
	// HostWorkspace is the same directory on this host, empty where the
	// files are not reachable here. Use it through os.Root only.
	HostWorkspace    string
	Retained         bool // the workspace outlives Remove(keepWorkspace)
	PlatformRestarts int
	Created          time.Time
	Reason           string
}

// ProcInfo identifies a launched process.
type ProcInfo struct {
	LaunchID string
	PID      int // as its host sees it; 0 when not known
	Started  time.Time
}

// Exit is how a command or process ended.
type Exit struct {
	Code   int
	Signal int  // the signal that ended it, else 0; Code is then 128+Signal
	OOM    bool // ended for want of memory, where that is known
	Known  bool // false: surely dead, code lost
	At     time.Time
	// Leftovers says what of the tree is still alive and out of reach, for
	// people; empty when nothing is.
	Leftovers string
}

// Signal is one of the four a worker's tree gets.
type Signal string

const (
	TERM Signal = "TERM"
	KILL Signal = "KILL"
	STOP Signal = "STOP"
	CONT Signal = "CONT"
)

// Finding is one line of doctor.
type Finding struct {
	Name   string // short: "bubblewrap", "cgroup"
	Status FindingStatus
	Detail string // what is so
	Hint   string // what to do next; empty when OK
}

// FindingStatus is how a check came out.
type FindingStatus string

const (
	OK   FindingStatus = "ok"
	Warn FindingStatus = "warn"
	Fail FindingStatus = "fail"
)
