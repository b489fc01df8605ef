package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

func TestCtrlCWhileUpStartsLeavesItStarting(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 2)
	w.set("worker.start_window", "6s")
	p := w.start("up", "-d")
	w.eventuallyPool("workers start", func(p control.Pool) bool { return p.Provisioning > 0 })
	p.signal(syscall.SIGINT)
	if r := p.wait(10 * time.Second); r.code != 130 || !strings.Contains(r.err, "pool down") {
		t.Errorf("%s\nwant exit code 130 and what goes on", r)
	}
	w.eventuallyPool("both run", func(p control.Pool) bool { return p.Running == 2 })
}

func TestCtrlCWhileDownWaitsLeavesItGoingDown(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 2)
	w.up()
	session := w.api.add(0)
	w.busyAll(1)
	p := w.start("down")
	w.eventually("it says who is waited for", func() bool { return strings.Contains(p.err.String(), session) })
	p.signal(syscall.SIGINT)
	if r := p.wait(10 * time.Second); r.code != 130 || !strings.Contains(r.err, "goes on going down") {
		t.Errorf("%s\nwant exit code 130 and what goes on", r)
	}
	// The session was not cut off, and its end is the pool's.
	if s := w.api.session(session); len(s.Holders) != 1 {
		t.Errorf("%+v", s)
	}
	w.api.terminate(session)
	w.eventually("the pool is down", func() bool { _, answers := w.peek(); return !answers })
}

func TestCtrlCOfUpIsDown(t *testing.T) {
	w := newWorld(t)
	w.set("worker.stop_grace", "2s")
	p := w.start("up", "--workers", "2")
	w.eventuallyPool("both run", func(p control.Pool) bool { return p.Running == 2 })
	p.signal(syscall.SIGINT)
	if r := p.wait(patience); r.code != 0 || !strings.Contains(r.err, "once more leaves at once") {
		t.Errorf("%s\nwant exit code 0 and what a second one does", r)
	}
	if lives := w.workerProcesses(); len(lives) != 0 {
		t.Errorf("Ctrl-C is down, but %d workers live", len(lives))
	}
}

func TestASecondCtrlCLeavesTheWorkersRunning(t *testing.T) {
	w := newWorld(t)
	p := w.start("up", "--workers", "2")
	w.eventuallyPool("both run", func(p control.Pool) bool { return p.Running == 2 })
	session := w.api.add(0)
	w.busyAll(1)
	p.signal(syscall.SIGINT)
	w.eventuallyPool("the busy one is waited for", func(p control.Pool) bool { return p.State == control.PoolDraining && p.Running == 1 })
	p.signal(syscall.SIGINT)
	if r := p.wait(10 * time.Second); r.code != 0 || !strings.Contains(r.err, "workers go on") {
		t.Errorf("%s\nwant exit code 0 and what is left", r)
	}
	if lives := w.workerProcesses(); len(lives) != 1 {
		t.Errorf("%d workers live, not the busy one alone", len(lives))
	}
	w.must("up", "-d", "--workers", "2")
	w.eventuallyPool("both run again", func(p control.Pool) bool { return p.Running == 2 && p.Busy == 1 })
	if s := w.api.session(session); len(s.Holders) != 1 || s.Done {
		t.Errorf("the session was cut off: %+v", s)
	}
	w.api.terminate(session)
}
