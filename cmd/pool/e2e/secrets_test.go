package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

func TestNoTokenAnywhere(t *testing.T) {
	bothIsolations(t, func(w *world) {
		const canary = "canary-of-the-supervisor-51c2"
		w.env["CANARY_OF_THE_SUPERVISOR"] = canary
		w.habit("PRINT_TOKEN", "1")
		w.up("--workers", "2")
		id := w.api.add(0)
		w.busyAll(1)
		w.eventually("the log has what the worker printed", func() bool {
			return strings.Contains(w.must("logs", "--tail", "all", "web-0").out, "again: ")
		})
		for pid := range w.processes() {
			if strings.Contains(cmdline(pid), token) {
				w.Errorf("the token is in the command line of %d: %s", pid, cmdline(pid))
			}
		}
		w.checkWorkerEnvironment(canary)
		w.checkNoTokenIn(rawOutput)
		for _, words := range [][]string{
			{"status"}, {"status", "-o", "wide"}, {"status", "-o", "json"}, {"events", "-n", "0"}, {"events", "-n", "0", "-o", "json"},
			{"logs", "--tail", "all"}, {"logs", "--supervisor", "--tail", "all"}, {"sessions"}, {"doctor"}, {"config", "show"},
		} {
			if r := w.must(words...); strings.Contains(r.out+r.err, token) {
				w.Errorf("the token is in the answer: %s", r)
			}
		}
		w.api.terminate(id)
		w.must("drain", "--wait", "web-0", "web-1")
		w.checkNoTokenIn(nil) // the raw output is empty once its worker has ended
		w.must("down")
		w.checkNoTokenIn(nil)
	})
}

func TestNoTokenInWhatIsToldOfFailures(t *testing.T) {
	w := newWorld(t)
	w.habit("PRINT_TOKEN", "1")
	w.habit("EXIT", "3")
	w.habit("EXIT_AFTER", "100ms")
	w.set("restart.initial", "50ms")
	w.run("up", "-d", "--workers", "1")
	// Three failures replace the sandbox, and its last lines go into an event.
	w.eventuallyPool("the sandbox is replaced", func(p control.Pool) bool { return worker(p, "web-0").Generation > 1 })
	if r := w.must("events", "-n", "0", "-o", "json"); strings.Contains(r.out, token) || !strings.Contains(r.out, "the token is") {
		t.Errorf("the failed worker's last lines must be told, without the token: %s", lastLines(r.out, 40))
	}
	w.must("down", "--now")
	w.checkNoTokenIn(nil)
	// Nor when Devin Cloud rejects it.
	w.api.accept("cog_another_token_42")
	for _, words := range [][]string{{"up", "--workers", "1"}, {"up", "-d", "--workers", "1"}, {"doctor"}} {
		r := w.run(words...)
		if r.code == 0 || !strings.Contains(r.out+r.err, "401") {
			t.Errorf("a rejected token must be refused: %s", r)
		}
		if strings.Contains(r.out+r.err, token) {
			t.Errorf("the token is in the error: %s", r)
		}
	}
	w.checkNoTokenIn(nil)
}

// rawOutput is the worker's own output on its way to the log, the one place
// where a token may be for a moment.
func rawOutput(path string) bool { return filepath.Base(path) == "worker.log" }

// checkNoTokenIn looks for the token in every file of the world.
func (w *world) checkNoTokenIn(except func(path string) bool) {
	w.Helper()
	files := 0
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || except != nil && except(path) || path == w.binary || path == w.devin {
			return nil // a file may vanish meanwhile
		}
		files++
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(token)) {
			w.Errorf("the token is in %s", path)
		}
		return nil
	})
	if err != nil || files < 4 {
		w.Errorf("%d files looked at: %v", files, err)
	}
}

// checkWorkerEnvironment fails for a variable that a worker has inherited.
func (w *world) checkWorkerEnvironment(canary string) {
	w.Helper()
	workers := w.workerProcesses()
	if len(workers) == 0 {
		w.Error("no worker lives")
	}
	for pid := range workers {
		text, err := os.ReadFile(procPath(pid, "environ"))
		if err != nil {
			w.Error(err)
		}
		if bytes.Contains(text, []byte(canary)) {
			w.Errorf("the worker has the supervisor's variable: %q", text)
		}
		theirs := strings.Split(string(text), "\x00")
		for _, ours := range w.environ() {
			name, _, _ := strings.Cut(ours, "=")
			given := name == "DEVIN_OUTPOSTS_TOKEN" || name == markEnv
			for _, each := range theirs {
				if each == ours && !given {
					w.Errorf("the worker inherited %s", each)
				}
			}
		}
	}
}

func TestARejectedTokenStopsRestartsAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "2")
	sessions := []string{w.api.add(0), w.api.add(0)}
	before := w.busyAll(2)
	w.api.accept("cog_another_token_42")
	w.eventuallyPool("the pool says that the token is rejected", func(p control.Pool) bool {
		return p.State == control.PoolHeld && p.Token.State == "rejected" && p.API.State == "unauthorized"
	})
	w.mustKill(worker(before, "web-0").PID)
	p := w.eventuallyPool("the killed worker is held", func(p control.Pool) bool { return worker(p, "web-0").State == "held" })
	if !strings.Contains(worker(p, "web-0").Reason, "token") {
		t.Errorf("%+v", worker(p, "web-0"))
	}
	// The slow probe: one more question, long after.
	asked, since := w.asked(), time.Now()
	w.eventually("the pool asks again", func() bool { return w.asked() > asked })
	if waited := time.Since(since); waited < 5*time.Second {
		t.Errorf("asked again after %s", waited)
	}
	p = w.status()
	if is := worker(p, "web-1"); is.PID != worker(before, "web-1").PID || !alive(is.PID) {
		t.Errorf("the living worker must go on: %+v", is)
	}
	if is := worker(p, "web-0"); is.State != "held" || is.PID != 0 {
		t.Errorf("%+v", is)
	}
	told := 0
	for _, e := range w.events() {
		if e.Kind == "token" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d events tell of the token, not 1", told)
	}
	w.api.accept(token)
	after := w.eventuallyPool("the pool recovers by itself", func(p control.Pool) bool {
		return p.State == control.PoolRunning && p.Running == 2 && worker(p, "web-0").PID != 0
	})
	if worker(after, "web-1").PID != worker(before, "web-1").PID {
		t.Errorf("%+v", worker(after, "web-1"))
	}
	for _, id := range sessions {
		w.api.terminate(id)
	}
}

// asked is how often the supervisor has asked for the queue. Busy workers ask
// only for their session.
func (w *world) asked() int {
	w.Helper()
	return w.api.state().Requests["devins.list"]
}
