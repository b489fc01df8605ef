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
	ctx      context.Context // ends with the slot, or when another process takes over
	end      context.CancelFunc
	followed chan struct{} // closed when its output has been read to the end
}

// attach takes a living process under watch, once. Its end is waited for from
// the moment on that the action's result has been told: the other way round
// the loop would hear of the end of a worker it does not know yet.
func (r *runner) attach(proc providers.Process, launchID string) {
	if w := r.follow(proc, launchID); w != nil {
		r.told = func() { r.s.runners.Go(func() { r.await(w, proc) }) }
	}
}

// follow carries a process's output to the slot's log until it has ended. It
// returns nil for a process that is followed already.
func (r *runner) follow(proc providers.Process, launchID string) *watch {
	if r.watch != nil && r.watch.launchID == launchID {
		return nil
	}
	r.unwatch()
	w := &watch{launchID: launchID, followed: make(chan struct{})}
	w.ctx, w.end = context.WithCancel(r.ctx)
	r.watch = w
	r.s.runners.Go(func() {
		defer close(w.followed)
		// Its errors are told through the log's own error hook.
		_ = r.s.logs.of(r.num).Run(w.ctx, proc)
	})
	return w
}

// unwatch gives up the process that was watched last: one whose sandbox is
// gone may never say that it ended.
func (r *runner) unwatch() {
	if r.watch != nil {
		r.watch.end()
		<-r.watch.followed
		r.watch = nil
	}
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

// clearAway ends what a dead worker left behind, before anyone is told of its
// end: one of those processes may still act under its identity. What cannot be
// ended now is ended by the next launch or by the removal.
func (r *runner) clearAway(proc providers.Process, exit providers.Exit) {
	if exit.Leftovers == "" {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, lastWords)
	defer cancel()
	if err := proc.Signal(ctx, providers.KILL); err != nil {
		r.s.set.Logger.Warn("what a dead worker left behind could not be ended yet", "worker", r.s.name(r.num), "left", exit.Leftovers, "error", err)
	}
}

// await tells the loop of the process's end. While its provider does not
// answer, only the display changes.
func (r *runner) await(w *watch, proc providers.Process) {
	silent := false
	for delay := time.Second; ; delay = min(2*delay, time.Minute) {
		exit, err := proc.Wait(w.ctx)
		if w.ctx.Err() != nil {
			return
		}
		if err == nil {
			r.clearAway(proc, exit)
			r.s.failureOf(r.num, func(roll float64, crowd int) plan.Event {
				return plan.WorkerEnded{LaunchID: w.launchID, Exit: exit, Roll: roll, Crowd: crowd}
			})
			return
		}
		if providers.Is(err, providers.NotFound) {
			r.s.lookAgain(r.num)
		} else if !silent {
			silent = true
			r.s.eventFor(r.num, plan.NoAnswer{Text: "its worker cannot be watched: " + err.Error()})
		}
		if pause(w.ctx, delay) != nil {
			return
		}
	}
}
