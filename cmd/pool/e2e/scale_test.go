package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

func TestScaleDownTakesTheIdleWorkerFirstAndWaitsForTheBusy(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "4")
		var sessions []string
		for range 3 {
			sessions = append(sessions, w.api.add(12*time.Second))
		}
		busy := w.busyAll(3)
		idle := ""
		for _, each := range busy.Workers {
			if each.Session == nil {
				idle = each.Name
			}
		}
		w.must("scale", "1")
		// The idle one is gone while every session still runs.
		p := w.eventuallyPool("the idle worker is gone", func(p control.Pool) bool { return worker(p, idle).Name == "" })
		if p.Busy != 3 || len(p.Workers) != 3 {
			w.Errorf("%s went, and %d workers of %d are busy", idle, p.Busy, len(p.Workers))
		}
		draining := 0
		for _, each := range p.Workers {
			if each.State == "draining" {
				draining++
				if each.Waits == "" || each.Reason == "" {
					w.Errorf("a draining worker must say why and until when: %+v", each)
				}
			}
		}
		if draining != 2 {
			w.Errorf("%d of the three busy workers drain, not 2", draining)
		}
		for _, id := range sessions {
			w.eventually("session "+id+" ends", func() bool { return w.api.session(id).Done })
			if holders := w.api.session(id).Holders; len(holders) != 1 {
				w.Errorf("%s had the holders %v", id, holders)
			}
		}
		w.eventuallyPool("one worker is left", func(p control.Pool) bool { return len(p.Workers) == 1 && p.Idle == 1 })
		for _, e := range w.events() {
			if strings.Contains(e.Reason, "cuts off") {
				w.Errorf("a session was cut off: %+v", e)
			}
		}
		if lives := w.workerProcesses(); len(lives) != 1 {
			w.Errorf("%d workers live: %v", len(lives), lives)
		}
	})
}

func TestScalingUpTakesDrainingWorkersBack(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "2")
	sessions := []string{w.api.add(0), w.api.add(0)}
	before := w.busyAll(2)
	w.must("scale", "0")
	w.eventuallyPool("both drain", func(p control.Pool) bool {
		return len(p.Workers) == 2 && !slices.ContainsFunc(p.Workers, func(each control.Worker) bool { return each.State != "draining" })
	})
	w.must("scale", "2", "--wait", "--timeout", "30s")
	after := w.eventuallyPool("both serve on", func(p control.Pool) bool {
		return len(p.Workers) == 2 && !slices.ContainsFunc(p.Workers, func(each control.Worker) bool { return each.State != "busy" })
	})
	if !slices.Equal(identities(before), identities(after)) {
		t.Errorf("the workers changed:\n%+v\n%+v", identities(before), identities(after))
	}
	for _, id := range sessions {
		w.api.terminate(id)
	}
	p := w.eventuallyPool("both are idle", func(p control.Pool) bool { return p.Idle == 2 })
	if !slices.Equal(identities(before), identities(p)) {
		t.Errorf("the workers changed:\n%+v\n%+v", identities(before), identities(p))
	}
}

func TestDrainAndUndrain(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "2")
	w.must("drain", "web-1", "--wait")
	if p := w.status(); p.Idle != 1 || worker(p, "web-1").PID != 0 {
		t.Errorf("%+v", worker(p, "web-1"))
	}
	if lives := w.workerProcesses(); len(lives) != 1 {
		t.Errorf("%d workers live: %v", len(lives), lives)
	}
	if r := w.run("undrain", "web-0"); r.code != 1 || !strings.Contains(r.err, "not drained") {
		t.Error(r)
	}
	w.must("undrain", "web-1", "--wait")
	if p := w.status(); p.Idle != 2 || worker(p, "web-1").PID == 0 {
		t.Errorf("%+v", worker(p, "web-1"))
	}
	// A drain of a busy worker waits, and can be taken back.
	id := w.api.add(0)
	before := w.busyAll(1)
	busy := ""
	for _, each := range before.Workers {
		if each.Session != nil {
			busy = each.Name
		}
	}
	if r := w.must("drain", busy); !strings.Contains(r.out+r.err, id) {
		t.Errorf("a drain that waits must say for what: %s", r)
	}
	w.eventuallyPool("it drains", func(p control.Pool) bool { return worker(p, busy).State == "draining" })
	w.must("undrain", busy)
	p := w.eventuallyPool("it serves on", func(p control.Pool) bool { return worker(p, busy).State == "busy" })
	if worker(p, busy).PID != worker(before, busy).PID {
		t.Errorf("%+v", worker(p, busy))
	}
	w.api.terminate(id)
}

func TestRestartTwiceAtOnceGivesOneLife(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "2")
	before := w.status()
	for range 3 {
		both := []*process{w.start("restart", "web-0", "--wait"), w.start("restart", "web-0", "--wait")}
		for _, p := range both {
			if r := p.wait(commandLimit); r.code != 0 {
				t.Error(r)
			}
		}
		after := w.eventuallyPool("both run", func(p control.Pool) bool { return p.Idle == 2 })
		if worker(after, "web-0").PID == worker(before, "web-0").PID || worker(after, "web-1").PID != worker(before, "web-1").PID {
			t.Errorf("before %+v\nafter %+v", identities(before), identities(after))
		}
		if lives := w.workerProcesses(); len(lives) != 2 {
			t.Errorf("%d workers live: %v", len(lives), lives)
		}
		before = after
	}
}

func TestRestartWaitsForTheSession(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "1")
	id := w.api.add(4 * time.Second)
	before := w.busyAll(1)
	if r := w.must("restart", "web-0"); !strings.Contains(r.out+r.err, id) {
		t.Errorf("a restart that waits must say for what: %s", r)
	}
	w.eventuallyPool("it runs anew", func(p control.Pool) bool {
		return p.Idle == 1 && worker(p, "web-0").PID != worker(before, "web-0").PID
	})
	if s := w.api.session(id); !s.Done || len(s.Holders) != 1 {
		t.Errorf("%+v", s)
	}
	// A restart that was asked for is no failure.
	if p := w.status(); worker(p, "web-0").RestartsLately != 0 {
		t.Errorf("%+v", worker(p, "web-0"))
	}
}
