package local

import (
	"context"
	"time"
)

// pollEvery is how often a process is looked at where the kernel has no
// events for us.
const pollEvery = 100 * time.Millisecond

// pollEnd is waitEnd without events.
func pollEnd(ctx context.Context, who id) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for aliveNow(who) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return ctx.Err()
}

// aliveNow looks at one process.
func aliveNow(who id) bool {
	p, ok := readProc(who.pid)
	return ok && table{who.pid: p}.alive(who)
}
