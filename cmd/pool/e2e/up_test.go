package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

// mustKill is kill -9.
func (w *world) mustKill(pid int) {
	w.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.Fatal(err)
	}
}

// supervisors are the processes that run `pool up`.
func (w *world) supervisors() (found []string) {
	for _, line := range w.processes() {
		if strings.HasPrefix(line, w.binary+" up") {
			found = append(found, line)
		}
	}
	return found
}

func TestUpInTheForegroundPrintsEventsAndTermTakesItDown(t *testing.T) {
	w := newWorld(t)
	p := w.start("up", "--workers", "2")
	w.eventuallyPool("two workers run", func(p control.Pool) bool { return p.Idle == 2 })
	id := w.api.add(time.Second)
	w.eventually("the session is served", func() bool { return w.api.session(id).Done })
	w.eventually("the events are printed", func() bool {
		return strings.Contains(p.out.String(), "web-1     starting → idle") && strings.Contains(p.out.String(), "→ "+id)
	})
	// A second up talks to the first and changes nothing.
	if r := w.must("up"); !strings.Contains(r.out+r.err, "runs already") {
		t.Error(r)
	}
	if r := w.must("up", "--workers", "3"); !strings.Contains(r.out+r.err, "3") {
		t.Error(r)
	}
	w.eventuallyPool("three workers run", func(p control.Pool) bool { return p.Idle == 3 })
	if r := w.must("up", "-d", "--workers", "3"); strings.Contains(r.out+r.err, "scaled") {
		t.Errorf("the same size again is no new command: %s", r)
	}
	p.signal(syscall.SIGTERM)
	if r := p.wait(commandLimit); r.code != 0 || !strings.Contains(r.out, "the pool is down") {
		t.Error(r)
	}
	if lives := w.workerProcesses(); len(lives) != 0 {
		t.Errorf("workers live after TERM: %v", lives)
	}
}

func TestTwoUpsAtOnceMakeOnePool(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		both := []*process{w.start("up", "-d", "--workers", "2"), w.start("up", "-d", "--workers", "2")}
		for _, p := range both {
			if r := p.wait(commandLimit); r.code != 0 {
				t.Errorf("%s\n%s", r, w.report())
			}
		}
		w.eventuallyPool("two workers run", func(p control.Pool) bool { return p.Idle == 2 && len(p.Workers) == 2 })
		w.eventually("one supervisor is left", func() bool { return len(w.supervisors()) == 1 })
		if lives := w.workerProcesses(); len(lives) != 2 {
			t.Errorf("%d workers live: %v", len(lives), lives)
		}
		w.must("down", "--now")
	}
}

func TestKeepAliveLeavesAPoolDownThatWasTakenDown(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "1")
	// From cron: it runs already.
	if r := w.must("up", "-d"); !strings.Contains(r.out+r.err, "runs already") {
		t.Error(r)
	}
	w.must("down")
	for range 2 {
		if r := w.must("up", "-d"); !strings.Contains(r.out+r.err, "taken down on purpose") {
			t.Error(r)
		}
		if found := w.supervisors(); len(found) != 0 {
			t.Fatalf("it was started: %v", found)
		}
	}
	w.must("up", "-d", "--force")
	// The size is the one that was last asked for.
	w.eventuallyPool("one worker runs", func(p control.Pool) bool { return p.Idle == 1 && p.Desired == 1 })
	w.must("down")
	w.must("up", "-d", "--workers", "2")
	w.eventuallyPool("two workers run", func(p control.Pool) bool { return p.Idle == 2 })
	// What crashed is started again.
	w.killSupervisor()
	w.must("up", "-d")
	w.eventuallyPool("two workers run", func(p control.Pool) bool { return p.Idle == 2 })
}

func TestUpWhileDevinCloudIsAway(t *testing.T) {
	away := map[string]struct{ leave, comeBack func(w *world) }{
		"refuses": {
			func(w *world) { w.api.stop() },
			func(w *world) { w.api.restart() },
		},
		"hangs": {
			func(w *world) { w.api.fault(outposttest.Fault{Kind: outposttest.FaultHang}) },
			// As a gateway that comes back: what hung is broken off.
			func(w *world) { w.api.stop(); w.api.restart() },
		},
	}
	for name, cloud := range away {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cloud.leave(w)
			began := time.Now()
			r := w.must("up", "-d", "--workers", "2")
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if !strings.Contains(r.out+r.err, "does not answer") {
				t.Errorf("it must say so: %s", r)
			}
			p := w.eventuallyPool("the view is stale", func(p control.Pool) bool { return p.API.State == "stale" && p.Running == 2 })
			if p.API.StaleSince.IsZero() || p.Pending != -1 || !strings.Contains(p.Detail, "does not answer") {
				t.Errorf("%+v", p)
			}
			if text := w.must("status").out; !strings.Contains(text, "busy and idle are as last seen") {
				t.Errorf("status must say that its view is old: %s", text)
			}
			cloud.comeBack(w)
			after := w.eventuallyPool("the pool sees Devin Cloud again", func(p control.Pool) bool { return p.API.State == "ok" })
			if !slices.Equal(identities(p), identities(after)) {
				t.Errorf("the workers changed:\n%+v\n%+v", identities(p), identities(after))
			}
			id := w.api.add(time.Second)
			w.eventually("the session is served", func() bool { return w.api.session(id).Done })
		})
	}
}

func TestUSR1LeavesTheWorkers(t *testing.T) {
	w := newWorld(t)
	p := w.start("up", "--workers", "2")
	id := w.api.add(0)
	before := w.eventuallyPool("one of two works", func(p control.Pool) bool { return p.Running == 2 && p.Busy == 1 })
	p.signal(syscall.SIGUSR1)
	if r := p.wait(30 * time.Second); r.code != 0 || !strings.Contains(r.err, "the workers go on") {
		t.Error(r)
	}
	if lives := w.workerProcesses(); len(lives) != 2 {
		t.Errorf("%d workers live: %v", len(lives), lives)
	}
	w.up() // it was not taken down: the keep-alive starts it
	after := w.busyAll(1)
	if !slices.Equal(identities(before), identities(after)) {
		t.Errorf("the workers changed:\n%+v\n%+v", identities(before), identities(after))
	}
	w.api.terminate(id)
}

func TestTheSecondTermLeavesAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.start("up", "--workers", "1")
	id := w.api.add(0)
	before := w.busyAll(1)
	p.signal(syscall.SIGTERM)
	w.eventually("it says who it waits for", func() bool { return strings.Contains(p.err.String(), id) })
	began := time.Now()
	p.signal(syscall.SIGTERM)
	r := p.wait(30 * time.Second)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if !strings.Contains(r.err, "the workers go on") {
		t.Errorf("it must say what is left: %s", r)
	}
	if was := worker(before, "web-0").PID; !alive(was) {
		t.Errorf("the worker %d is gone", was)
	}
	w.up("--force")
	after := w.eventuallyPool("the worker serves on", func(p control.Pool) bool { return worker(p, "web-0").State == "busy" })
	if !slices.Equal(identities(before), identities(after)) {
		t.Errorf("the workers changed:\n%+v\n%+v", identities(before), identities(after))
	}
	w.api.terminate(id)
}

func TestDownWaitsForTheSessionAndSaysForWhom(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "2")
		id := w.api.add(6 * time.Second)
		w.busyAll(1)
		p := w.start("down")
		w.eventually("down says who it waits for", func() bool {
			return strings.Contains(p.out.String()+p.err.String(), "serves "+id)
		})
		r := p.wait(commandLimit)
		if s := w.api.session(id); r.code != 0 || !s.Done || len(s.Holders) != 1 {
			w.Errorf("%+v: %s", s, r)
		}
		if lives := w.workerProcesses(); len(lives) != 0 {
			w.Errorf("workers live after down: %v", lives)
		}
		// The next up goes on with the workspaces.
		w.up("--force")
		w.eventuallyPool("two workers run", func(p control.Pool) bool { return p.Idle == 2 })
		found := false
		for _, name := range []string{"web-0", "web-1"} {
			r := w.run("exec", name, "--", "cat", "outpost-proof.txt", "repos/"+id+"/work.txt")
			found = found || r.code == 0 && strings.Count(r.out, "session "+id) == 2
		}
		if !found {
			w.Errorf("no workspace has what the session wrote before down")
		}
	})
}

func TestDownNowCutsSessionsOff(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "2")
	sessions := []string{w.api.add(0), w.api.add(0)}
	w.busyAll(2)
	if r := w.must("down", "--now"); !strings.Contains(r.out+r.err, "ended") {
		t.Error(r)
	}
	if lives := w.workerProcesses(); len(lives) != 0 {
		t.Errorf("workers live: %v", lives)
	}
	// Their claims are given back: others can go on with the sessions at once.
	for _, id := range sessions {
		if s := w.api.session(id); s.Done || s.Phase != "pending" || s.Acceptor != "" {
			t.Errorf("%+v", s)
		}
	}
	if r := w.run("status"); r.code != 3 {
		t.Error(r)
	}
}
