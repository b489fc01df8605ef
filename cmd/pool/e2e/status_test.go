package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/outpostpool/pool/pool/control"
)

func TestStatusHasEveryField(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "2")
		// One restart, so that there is a last exit to show.
		first := worker(w.status(), "web-0")
		if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
			w.Fatal(err)
		}
		w.eventuallyPool("web-0 runs again", func(p control.Pool) bool {
			return p.Idle == 2 && worker(p, "web-0").PID != first.PID
		})
		id := w.api.add(0)
		other := w.api.add(0)
		w.busyAll(2)
		r := w.must("status", "-o", "json")
		var fields map[string]any
		if err := json.Unmarshal([]byte(r.out), &fields); err != nil {
			w.Fatal(err)
		}
		has(w, fields, "state", "detail", "desired", "running", "busy", "idle", "provisioning", "broken", "pending", "api.state", "size_rule.source", "workers")
		for _, each := range fields["workers"].([]any) {
			has(w, each.(map[string]any), "name", "acceptor_id", "state", "reason", "since", "health", "session.id", "session.since",
				"restarts_total", "restarts_lately", "started", "generation", "sandbox_id", "pid", "cpu", "memory")
		}
		p := w.status()
		if p.State != control.PoolRunning || p.Detail == "" || p.Desired != 2 || p.Running != 2 || p.Busy != 2 || p.Idle != 0 ||
			p.Provisioning != 0 || p.Broken != 0 || p.Pending != 0 || p.API.State != "ok" || p.SizeRule.Source != "scale" {
			w.Errorf("%+v", p)
		}
		for _, each := range p.Workers {
			if each.State != "busy" || each.Reason == "" || each.Health != control.Healthy || each.Session == nil || each.Session.ID != id && each.Session.ID != other {
				w.Errorf("%+v", each)
				continue
			}
			if age := p.Now.Sub(each.Session.Since); age < 0 || age > patience {
				w.Errorf("%s has served for %s", each.Name, age)
			}
			if up := p.Now.Sub(each.Started); up < 0 || up > 2*patience {
				w.Errorf("%s is up for %s", each.Name, up)
			}
			if each.CPU < 0 || each.CPU > 8 || each.Memory < 1<<20 || each.Memory > 1<<30 {
				w.Errorf("%s uses %f cores and %d bytes", each.Name, each.CPU, each.Memory)
			}
			if line := cmdline(each.PID); !strings.Contains(line, w.devin+" __worker") {
				w.Errorf("pid %d of %s is %q", each.PID, each.Name, line)
			}
			if each.Generation != 1 || !strings.HasPrefix(each.Acceptor, "web-") || each.Sandbox == "" {
				w.Errorf("%+v", each)
			}
		}
		killed := worker(p, "web-0")
		if killed.RestartsTotal != 1 || killed.RestartsLately != 1 || killed.LastExit == nil || !killed.LastExit.Known ||
			killed.LastExit.Signal != 9 || !strings.Contains(killed.LastExit.Reason, "signal 9") {
			w.Errorf("after a kill: %+v, %+v", killed, killed.LastExit)
		}
		if text := w.must("status").out; !strings.Contains(text, "all 2 workers busy") || !strings.Contains(text, id) {
			w.Error(text)
		}
		if text := w.must("sessions").out; !strings.Contains(text, id) || !strings.Contains(text, other) {
			w.Error(text)
		}
		w.api.terminate(id)
		w.api.terminate(other)
	})
}

// has fails for fields that are missing; a dot leads into an object.
func has(w *world, fields map[string]any, paths ...string) {
	w.Helper()
	for _, path := range paths {
		var at any = fields
		for _, key := range strings.Split(path, ".") {
			object, _ := at.(map[string]any)
			at = object[key]
		}
		if at == nil {
			w.Errorf("no %s in %v", path, fields)
		}
	}
}

func TestVerifyFindsWhatASessionWrote(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "2")
	p := w.start("verify", "--timeout", "1m")
	var task string
	w.eventually("the task is printed", func() bool {
		for _, line := range strings.Split(p.out.String(), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "write ") {
				task = strings.TrimSpace(line)
			}
		}
		return task != ""
	})
	id := w.api.addPrompt(task)
	r := p.wait(commandLimit)
	if r.code != 0 || !strings.Contains(r.out, "It works: web-") || !strings.Contains(r.out, id) {
		t.Error(r)
	}
	// What was there before is no proof.
	if r := w.run("verify", "--timeout", "3s"); r.code != 4 {
		t.Error(r)
	}
}

func TestADeletedSandboxIsNoticedAndReplaced(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.habit("PRINT", "5")
		w.up("--workers", "2")
		before := w.status()
		gone := w.state + "/sandboxes/" + worker(before, "web-0").Sandbox
		if _, err := os.Stat(gone); err != nil {
			w.Fatal(err)
		}
		if err := os.RemoveAll(gone); err != nil {
			w.Fatal(err)
		}
		after := w.eventuallyPool("web-0 is replaced", func(p control.Pool) bool {
			return p.Idle == 2 && worker(p, "web-0").Generation == 2 && worker(p, "web-0").PID != worker(before, "web-0").PID
		})
		if is := worker(after, "web-0"); is.RestartsTotal != 1 || is.Acceptor != worker(before, "web-0").Acceptor {
			w.Errorf("%+v", is)
		}
		if is, was := worker(after, "web-1"), worker(before, "web-1"); is.PID != was.PID || is.RestartsTotal != 0 {
			w.Errorf("%+v", is)
		}
		explained := false
		for _, e := range w.events() {
			explained = explained || e.Worker == "web-0" && strings.Contains(e.Reason, "gone")
		}
		if !explained {
			w.Errorf("no event says that the sandbox was gone")
		}
		// It can work: the session of the replacement goes through.
		ids := []string{w.api.add(1e9), w.api.add(1e9)}
		for _, id := range ids {
			w.eventually("the session is served", func() bool { return w.api.session(id).Done })
		}
		if lives := w.workerProcesses(); len(lives) != 2 {
			w.Errorf("%d workers live: %v", len(lives), lives)
		}
	})
}
