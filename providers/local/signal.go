package local

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

const (
	signalRounds = 50                    // a tree that still grows after these is left as it is
	signalPause  = 2 * time.Millisecond  // after the first round, for the kernel to deliver; then longer
	longestPause = 50 * time.Millisecond // all rounds together take 2 s at most
)

// hunt is one signalling of a tree that may grow meanwhile.
type hunt struct {
	find func(table) []proc // the tree now
	uid  int                // whose processes may be signalled
	sig  unix.Signal
}

// run signals the tree until nothing in it is new. TERM and CONT reach each
// process once; STOP and KILL are repeated until all have stopped or died. It
// returns what was still alive, or running, at the end.
func (h hunt) run(ctx context.Context) ([]proc, error) {
	reached := map[id]bool{}
	var open []proc
	for round := range signalRounds {
		if err := ctx.Err(); err != nil {
			return open, err
		}
		t, err := readTable()
		if err != nil {
			return open, err
		}
		open = open[:0]
		for _, p := range h.find(t) {
			if !h.due(p, reached) || uidOf(p.pid) != h.uid {
				continue
			}
			if err := signalProcess(p.id(), h.sig); err == unix.ESRCH {
				continue
			}
			reached[p.id()] = true
			open = append(open, p)
		}
		if len(open) == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return open, ctx.Err()
		case <-time.After(min(time.Duration(round+1)*signalPause, longestPause)):
		}
	}
	return open, nil
}

// due reports whether a process still needs the signal.
func (h hunt) due(p proc, reached map[id]bool) bool {
	switch h.sig {
	case unix.SIGKILL:
		return true
	case unix.SIGSTOP:
		// One that waits in the kernel, as for a stopped child of vfork, stops
		// before it runs on.
		return !p.stopped && !(p.waits && reached[p.id()])
	default:
		return !reached[p.id()]
	}
}

// tree finds the living members of a launch. Bubblewrap's own two processes
// are among them only on request.
func (s *Sandbox) tree(l *launched, all bool) func(table) []proc {
	return func(t table) []proc {
		r := s.roots(t, l)
		found := members(t, r)
		if all || !l.Walls {
			return found
		}
		own := wallKeepers(t, r.worker)
		return slices.DeleteFunc(found, func(p proc) bool { return slices.Contains(own, p.pid) })
	}
}

// signal reaches the whole tree of a launch.
func (s *Sandbox) signal(ctx context.Context, l *launched, sig providers.Signal) error {
	op := fmt.Sprintf("send %s to %s", sig, s.meta.Name)
	number, ok := launch.SignalNumber(sig)
	if !ok {
		return providers.Errorf(providers.Invalid, op, "no such signal")
	}
	left, err := hunt{find: s.tree(l, sig == providers.KILL), uid: s.p.uid, sig: number}.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return providers.Errorf(providers.Transient, op, "%w", err)
	case len(left) > 0 && sig != providers.TERM && sig != providers.CONT:
		return providers.Errorf(providers.Transient, op, "not all of the tree followed: %s", describe(left))
	}
	return nil
}

// killAll ends whatever is left of the last launch and says what it could not.
func (s *Sandbox) killAll(ctx context.Context) string {
	l, err := s.current()
	if err != nil {
		return err.Error()
	}
	if l == nil {
		return ""
	}
	left, err := hunt{find: s.tree(l, true), uid: s.p.uid, sig: unix.SIGKILL}.run(ctx)
	if err != nil {
		return err.Error()
	}
	if len(left) > 0 {
		return describe(left)
	}
	// The keeper writes the exit, then ends by itself.
	if wait, cancel := context.WithTimeout(ctx, keeperTime); s.p.waitEnd(wait, l.keeper()) == nil {
		cancel()
	} else {
		cancel()
		if p, ok := readProc(l.Keeper.PID); ok && p.id() == l.keeper() && s.isKeeper(l) {
			signalProcess(l.keeper(), unix.SIGKILL)
		}
	}
	s.p.reap(l)
	return ""
}

// keeperTime is how long a keeper may take to notice its worker's end.
const keeperTime = 2 * time.Second

// isKeeper reports whether the recorded keeper is a shell with our script, so
// that a file that a session wrote never makes us end anything else.
func (s *Sandbox) isKeeper(l *launched) bool {
	if l.child {
		return true
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.Keeper.PID))
	return err == nil && uidOf(l.Keeper.PID) == s.p.uid &&
		strings.Contains(string(line), "\x00"+s.scriptPath()+"\x00")
}

// describe names processes for people. A process chooses its own name, so it
// is quoted.
func describe(left []proc) string {
	const named = 5
	names := []string{}
	for _, p := range left[:min(len(left), named)] {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
		names = append(names, strings.TrimSpace(fmt.Sprintf("%d %.40q", p.pid, strings.TrimSpace(string(comm)))))
	}
	if len(left) > named {
		names = append(names, fmt.Sprintf("%d more", len(left)-named))
	}
	if len(left) == 1 {
		return "1 process is still alive: " + names[0]
	}
	return fmt.Sprintf("%d processes are still alive: %s", len(left), strings.Join(names, ", "))
}
