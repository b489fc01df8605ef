// Package controltest stands in for a supervisor: a Backend that a test
// writes the state of, and a server of it on a real socket.
package controltest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/outpostpool/pool/pool/control"
)

// Backend serves what it was told. The zero value is an empty pool. It is
// safe for concurrent use, and may be served by several servers, one after
// another, as by a supervisor that restarts.
type Backend struct {
	// OnExec, when set, is what Exec does. Set it before serving.
	OnExec func(ctx context.Context, worker string, r control.ExecRequest, s control.ExecStreams) (int, error)
	// OnCall, when set, sees every command before it is recorded, and an error
	// of it is the answer. Set it before serving.
	OnCall func(c Call) error

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	pool     control.Pool
	events   []control.Event
	sessions []control.ServedSession
	lines    []control.LogLine
	calls    []Call
}

// Call is one command that reached the backend.
type Call struct {
	Verb, Worker string
	Body         any
}

var _ control.Backend = (*Backend)(nil)

// change runs f under the lock and wakes everyone who follows.
func (b *Backend) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	if b.changed != nil {
		close(b.changed)
	}
	b.changed = make(chan struct{})
}

// read runs f under the lock and returns what tells of the next change.
func (b *Backend) read(f func()) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// SetPool replaces the pool.
func (b *Backend) SetPool(p control.Pool) { b.change(func() { b.pool = p }) }

// Change edits the pool. edit must not keep slices of it.
func (b *Backend) Change(edit func(*control.Pool)) {
	b.change(func() {
		b.pool.Workers = slices.Clone(b.pool.Workers)
		edit(&b.pool)
	})
}

// AddEvent adds an event and gives it the next id.
func (b *Backend) AddEvent(e control.Event) {
	b.change(func() {
		e.ID = int64(len(b.events) + 1)
		b.events = append(b.events, e)
	})
}

// AddSession adds a session served.
func (b *Backend) AddSession(s control.ServedSession) {
	b.change(func() { b.sessions = append(b.sessions, s) })
}

// AddLine adds a log line and gives it a cursor.
func (b *Backend) AddLine(l control.LogLine) {
	b.change(func() {
		l.Cursor = strconv.Itoa(len(b.lines) + 1)
		b.lines = append(b.lines, l)
	})
}

// Calls returns the commands so far.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

func (b *Backend) call(c Call) error {
	if b.OnCall != nil {
		if err := b.OnCall(c); err != nil {
			return err
		}
	}
	b.change(func() { b.calls = append(b.calls, c) })
	return nil
}

// Pool is Backend's.
func (b *Backend) Pool(ctx context.Context) (p control.Pool, err error) {
	b.read(func() { p = b.pool })
	return p, ctx.Err()
}

// Watch is Backend's.
func (b *Backend) Watch(ctx context.Context, emit func(control.Pool) error) error {
	for {
		var p control.Pool
		next := b.read(func() { p = b.pool })
		if err := emit(p); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// Events is Backend's.
func (b *Backend) Events(ctx context.Context, q control.EventQuery, emit func(control.Event) error) error {
	after, first := q.After, true
	return b.tail(ctx, q.Follow, func() (list []func() error) {
		for _, e := range b.events {
			if e.ID > after && (q.Worker == "" || e.Worker == q.Worker) {
				list = append(list, func() error { after = e.ID; return emit(e) })
			}
		}
		if first && q.Limit > 0 && len(list) > q.Limit {
			list = list[len(list)-q.Limit:]
		}
		first = false
		return list
	})
}

// Logs is Backend's. It knows Workers, Tail, Cursors, Supervisor and Follow.
func (b *Backend) Logs(ctx context.Context, q control.LogQuery, emit func(control.LogLine) error) error {
	seen := map[string]int{}
	for worker, cursor := range q.Cursors {
		n, err := strconv.Atoi(cursor)
		if err != nil {
			return control.Fail(control.CodeInvalid, "no such cursor: "+cursor, "")
		}
		seen[worker] = n
	}
	for _, w := range q.Workers {
		if !b.has(w) {
			return control.Fail(control.CodeNotFound, "no worker is called "+w, "pool status lists them")
		}
	}
	first := true
	return b.tail(ctx, q.Follow, func() (list []func() error) {
		count := map[string]int{}
		for _, l := range slices.Backward(b.lines) {
			n, _ := strconv.Atoi(l.Cursor)
			mine := (l.Worker == "supervisor") == q.Supervisor && (len(q.Workers) == 0 || slices.Contains(q.Workers, l.Worker))
			if !mine || n <= seen[l.Worker] {
				continue
			}
			count[l.Worker]++
			if _, resumed := q.Cursors[l.Worker]; first && !resumed && q.Tail >= 0 && count[l.Worker] > q.Tail {
				continue
			}
			list = append(list, func() error { seen[l.Worker] = n; return emit(l) })
		}
		slices.Reverse(list)
		first = false
		return list
	})
}

// tail emits what list gives, and goes on at each change when it follows.
func (b *Backend) tail(ctx context.Context, follow bool, list func() []func() error) error {
	for {
		var todo []func() error
		next := b.read(func() { todo = list() })
		for _, emit := range todo {
			if err := emit(); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

func (b *Backend) has(worker string) (found bool) {
	b.read(func() {
		found = slices.ContainsFunc(b.pool.Workers, func(w control.Worker) bool { return w.Name == worker })
	})
	return found
}

// Sessions is Backend's.
func (b *Backend) Sessions(_ context.Context, limit int) (list []control.ServedSession, err error) {
	b.read(func() { list = slices.Clone(b.sessions) })
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	return list, nil
}

// Scale is Backend's: it sets the desired size.
func (b *Backend) Scale(_ context.Context, r control.ScaleRequest) (control.ScaleResult, error) {
	if err := b.call(Call{Verb: "scale", Body: r}); err != nil {
		return control.ScaleResult{}, err
	}
	var res control.ScaleResult
	b.change(func() {
		was := b.pool.Desired
		b.pool.Desired = r.Workers
		res = control.ScaleResult{Was: was, Desired: r.Workers, Changed: was != r.Workers, Detail: fmt.Sprintf("%d workers wanted, was %d", r.Workers, was)}
	})
	return res, nil
}

func (b *Backend) act(verb, worker string, body any) (control.Done, error) {
	if !b.has(worker) {
		return control.Done{}, control.Fail(control.CodeNotFound, "no worker is called "+worker, "pool status lists them")
	}
	if err := b.call(Call{Verb: verb, Worker: worker, Body: body}); err != nil {
		return control.Done{}, err
	}
	return control.Done{Detail: verb + " of " + worker + " begun"}, nil
}

// Restart is Backend's.
func (b *Backend) Restart(_ context.Context, worker string, a control.WorkerAction) (control.Done, error) {
	return b.act("restart", worker, a)
}

// Drain is Backend's.
func (b *Backend) Drain(_ context.Context, worker string, a control.WorkerAction) (control.Done, error) {
	return b.act("drain", worker, a)
}

// Undrain is Backend's.
func (b *Backend) Undrain(_ context.Context, worker string) (control.Done, error) {
	return b.act("undrain", worker, nil)
}

// Down is Backend's.
func (b *Backend) Down(_ context.Context, r control.DownRequest) (control.Done, error) {
	if err := b.call(Call{Verb: "down", Body: r}); err != nil {
		return control.Done{}, err
	}
	return control.Done{Detail: "going down"}, nil
}

// Exec is Backend's: what OnExec does, for workers that exist.
func (b *Backend) Exec(ctx context.Context, worker string, r control.ExecRequest, s control.ExecStreams) (int, error) {
	if !b.has(worker) {
		return 0, control.Fail(control.CodeNotFound, "no worker is called "+worker, "pool status lists them")
	}
	if b.OnExec == nil {
		return 0, control.Fail(control.CodeUnavailable, worker+" has no sandbox", "")
	}
	return b.OnExec(ctx, worker, r, s)
}
