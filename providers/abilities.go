package providers

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Abilities that not all providers have. A caller finds them by type
// assertion on a Sandbox, or on a Process where it says so.

// Snapshotter takes snapshots in the vendor's own way.
type Snapshotter interface {
	// Snapshot is idempotent by key and durable on return.
	Snapshot(ctx context.Context, key string) (id string, err error)
	Snapshots(ctx context.Context) ([]NativeSnapshot, error)
	DeleteSnapshot(ctx context.Context, id string) error
	// WithMemory says that a snapshot would revive the worker: then it is
	// taken only after the worker is dead, never by interval.
	WithMemory() bool
}

// NativeSnapshot is one entry of Snapshotter.Snapshots. Size is in bytes, 0
// when the vendor does not tell.
type NativeSnapshot struct {
	ID, Key string
	Created time.Time
	Size    int64
}

// Suspender stops and starts a sandbox with its disk kept.
type Suspender interface {
	Suspend(ctx context.Context) error
	Resume(ctx context.Context) error
}

// KeepAliver pushes a soft limit back to until.
type KeepAliver interface {
	KeepAlive(ctx context.Context, until time.Time) error
}

// Files reads and writes single files, for vendors whose Exec is not
// binary-safe. Paths are absolute inside the sandbox.
type Files interface {
	ReadFile(ctx context.Context, path string, offset int64) (io.ReadCloser, error)
	WriteFile(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error
}

// Sizer tells live use. A field is negative where it is not known.
type Sizer interface {
	Usage(ctx context.Context) (Usage, error)
}

// Usage of a whole sandbox: CPU is consumed processor time since the worker
// started, so that a rate is the difference of two readings; Memory and Disk
// are bytes.
type Usage struct {
	CPU    time.Duration
	Memory int64
	Disk   int64
	At     time.Time
}

// Discarder, an ability of a Process, gives back the disk space of output
// below offset, which nobody will read again.
type Discarder interface {
	Discard(ctx context.Context, offset int64) error
}

// Backlog, an ability of a Process, tells the length of the output so far in
// bytes, so that a reader knows how far behind it is.
type Backlog interface {
	OutputSize(ctx context.Context) (int64, error)
}

// Epocher raises the epoch in a sandbox's run directory. A launch with a lower
// epoch is then refused. Epoch reads the current one.
type Epocher interface {
	Epoch(ctx context.Context) (int64, error)
	RaiseEpoch(ctx context.Context, epoch int64) error
}
