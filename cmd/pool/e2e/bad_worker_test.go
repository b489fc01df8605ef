package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

func TestAWorkerThatIgnoresTermIsKilledAfterTheGrace(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 2)
	w.set("worker.stop_grace", "3s")
	w.habit("IGNORE_TERM", "1")
	w.up()
	w.eventually("both ignore it by now", func() bool {
		return strings.Count(w.must("logs").out, "waiting for sessions") == 2
	})
	began := time.Now()
	w.must("drain", "--now", "--wait", "web-0")
	if took := time.Since(began); took < 3*time.Second || took > 12*time.Second {
		t.Errorf("it was gone after %s, the grace period is 3 s", took)
	}
	p := w.status()
	if exit := worker(p, "web-0").LastExit; exit == nil || exit.Signal != 9 {
		t.Errorf("last exit %+v, want signal 9", exit)
	}
	if each := worker(p, "web-1"); each.State != "idle" || each.RestartsTotal != 0 {
		t.Errorf("the other worker: %+v", each)
	}
	w.must("down", "--now")
}

func TestAChildInItsOwnSessionIsGoneAfterDown(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.set("pool.workers", 1)
		w.habit("FORK", "600s")
		w.up()
		w.eventually("the child is there", func() bool { return len(w.strays()) > 0 })
		w.must("down", "--now")
		if left := w.strays(); len(left) > 0 {
			w.Errorf("after down: %v", left)
		}
	})
}

// strays are the children of sessions of their own that stand-ins fork away.
func (w *world) strays() (lines []string) {
	for pid, line := range w.processes() {
		if pid != w.api.cmd.Process.Pid && strings.HasPrefix(line, "sleep 600") {
			lines = append(lines, fmt.Sprintf("%d %s", pid, line))
		}
	}
	return lines
}

func TestAWorkerThatDiesAtOnceIsTriedEverMoreSlowly(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 2)
	w.set("restart.initial", "400ms")
	w.set("restart.max", "3s")
	w.set("restart.jitter", 0)
	w.set("worker.start_window", "5s") // its death must fall into it, on a slow machine too
	w.habit("CRASH", "1")
	r := w.run("up", "-d")
	if r.code != 1 || !strings.Contains(r.err, "web-") || !strings.Contains(r.err, "exit code 1") || !strings.Contains(r.err, "pool logs") {
		t.Errorf("%s\nwant exit code 1, the worker, its exit and what to do", r)
	}
	p := w.eventuallyPool("crash loops are shown", func(p control.Pool) bool {
		return marked(p, "web-0", "crash-looping") && marked(p, "web-1", "crash-looping")
	})
	if p.State != control.PoolDegraded || p.Broken != 2 {
		t.Errorf("the pool is %s with %d broken", p.State, p.Broken)
	}
	restarts := worker(p, "web-0").RestartsTotal
	p = w.eventuallyPool("it is still tried", func(p control.Pool) bool { return worker(p, "web-0").RestartsTotal > restarts+1 })
	if text := w.must("status").out; !strings.Contains(text, "crash-looping") || !strings.Contains(text, "pool logs web-0") {
		t.Errorf("status says nothing of it:\n%s", text)
	}
	w.checkDelaysGrow("web-0", 3*time.Second)
	// The cause goes away: nobody has to do anything.
	w.set("worker.env.POOLTEST_CRASH", "0")
	w.must("down", "--leave")
	w.start("up", "-d").wait(commandLimit) // it may still find them in trouble
	w.eventuallyPool("they recover", func(p control.Pool) bool { return p.Running == 2 && p.Desired == 2 })
}

func marked(p control.Pool, name, mark string) bool {
	for _, m := range worker(p, name).Marks {
		if m.Name == mark {
			return true
		}
	}
	return false
}

// checkDelaysGrow measures the pauses between an end and the next start.
func (w *world) checkDelaysGrow(name string, longest time.Duration) {
	w.Helper()
	var pauses []time.Duration
	var ended time.Time
	for _, e := range w.events() {
		switch {
		case e.Worker != name:
		case e.To == "backoff":
			ended = e.At
		case e.To == "starting" && !ended.IsZero():
			pauses = append(pauses, e.At.Sub(ended))
			ended = time.Time{}
		}
	}
	if len(pauses) < 4 {
		w.Errorf("%s: only %d pauses: %v", name, len(pauses), pauses)
		return
	}
	for i, each := range pauses {
		if each > longest+2*time.Second {
			w.Errorf("%s: pause %d is %s, the longest allowed %s", name, i, each, longest)
		}
	}
	if last := pauses[len(pauses)-1]; last < longest/2 || last < 2*pauses[0] {
		w.Errorf("%s: the pauses do not grow: %v", name, pauses)
	}
}
