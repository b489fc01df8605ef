package pool

import (
	"context"
	"sync"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/providers"
)

// runner is one slot's own goroutine: it carries out one action at a time, so
// that a hanging call delays no other slot. It decides nothing.
type runner struct {
	s    *Supervisor
	num  int
	work chan job
	ctx  context.Context // of the slot: ends when the slot is dropped or the supervisor ends
	end  context.CancelFunc

	mu     sync.Mutex
	cancel context.CancelFunc // of the action under way

	// What follows belongs to the runner's goroutine.
	sandbox providers.Sandbox
	watch   *watch // of the living worker
	told    func() // what to begin once the action's result has been told
}

// job is an action with the slot as it was when it was decided.
type job struct {
	ctx    context.Context
	slot   plan.Slot
	action plan.Action
}

func newRunner(s *Supervisor, num int) *runner {
	r := &runner{s: s, num: num, work: make(chan job, 1)}
	r.ctx, r.end = context.WithCancel(s.ctx)
	s.runners.Go(r.run)
	return r
}

// begin hands over an action, or cancels the one under way. The planner never
// has two under way, so this never blocks.
func (r *runner) begin(sl plan.Slot, a plan.Action) {
	if a.Cancel {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.cancel != nil {
			r.cancel()
		}
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.s.deadline(a.Kind))
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	r.work <- job{ctx, sl, a}
}

func (r *runner) run() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case j := <-r.work:
			f := r.do(j)
			r.mu.Lock()
			r.cancel()
			r.cancel = nil
			r.mu.Unlock()
			r.report(f, j.action)
			if r.told != nil {
				r.told()
				r.told = nil
			}
		}
	}
}

// report sends an action's result to the loop.
func (r *runner) report(f plan.Finished, a plan.Action) {
	f.Action = a
	r.s.tell(func(s *Supervisor) {
		sl := s.slots[r.num]
		if sl == nil {
			return
		}
		f.Roll = s.set.Rand()
		if !f.OK && a.Kind == plan.Prepare {
			f.Crowd = s.crowd(time.Now())
		}
		s.settle(sl, f)
	})
}

// deadline is after how long an action's result is unknown.
func (s *Supervisor) deadline(kind plan.ActionKind) time.Duration {
	p := s.set.Policy
	switch kind {
	case plan.Create:
		return 10 * time.Minute
	case plan.Prepare:
		return s.set.Worker.PrepareLimit
	case plan.Stop:
		return p.StopGrace + time.Minute
	case plan.StopIdle:
		return p.StopGrace + 2*time.Minute
	case plan.Remove:
		return 5 * time.Minute
	default:
		return time.Minute
	}
}
