package pool

import (
	"context"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/providers"
)

// watch is what goes on beside a launched process: one goroutine that waits
// for its end, and one that carries its output to the log.
type watch struct {
	launchID string
	followed chan struct{} // closed when its output has been read to the end
}

// attach takes a living process under watch, once.
func (r *runner) attach(proc providers.Process, launchID string) {
	if r.watch != nil && r.watch.launchID == launchID {
		return
	}
	r.follow(proc, launchID)
	r.s.runners.Go(func() { r.await(proc, launchID) })
}

// follow carries a process's output to the slot's log until it has ended.
func (r *runner) follow(proc providers.Process, launchID string) {
	if r.watch != nil && r.watch.launchID == launchID {
		return
	}
	w := &watch{launchID, make(chan struct{})}
	r.watch = w
	r.s.runners.Go(func() {
		defer close(w.followed)
		// Its errors are told through the log's own error hook.
		_ = r.s.logs.of(r.num).Run(r.ctx, proc)
	})
}

// lastWords is how long the end of a worker's output is waited for.
const lastWords = 10 * time.Second

// letFinish waits until the last process's output is in the log, so that the
// next launch does not take it away.
func (r *runner) letFinish(ctx context.Context) {
	if r.watch == nil {
		return
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-r.watch.followed:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// await tells the loop of the process's end. While its provider does not
// answer, only the display changes.
func (r *runner) await(proc providers.Process, launchID string) {
	silent := false
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		exit, err := proc.Wait(r.ctx)
		if r.ctx.Err() != nil {
			return
		}
		if err == nil {
			r.s.failureOf(r.num, func(roll float64, crowd int) plan.Event {
				return plan.WorkerEnded{LaunchID: launchID, Exit: exit, Roll: roll, Crowd: crowd}
			})
			return
		}
		if !silent {
			silent = true
			r.s.eventFor(r.num, plan.NoAnswer{Text: "its worker cannot be watched: " + err.Error()})
		}
		if pause(r.ctx, delay) != nil {
			return
		}
	}
}
