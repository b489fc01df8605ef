package e2e

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

// identity is what must not change while workers live on.
type identity struct {
	name, acceptor, sandbox string
	pid, generation         int
	restarts                int
}

func identities(p control.Pool) (all []identity) {
	for _, w := range p.Workers {
		all = append(all, identity{w.Name, w.Acceptor, w.Sandbox, w.PID, w.Generation, w.RestartsTotal})
	}
	return all
}

func bothIsolations(t *testing.T, test func(w *world)) {
	for _, isolation := range []string{"bwrap", "none"} {
		t.Run(isolation, func(t *testing.T) {
			w := newWorld(t)
			w.set("provider.local.isolation", isolation)
			test(w)
		})
	}
}

// busyAll waits until so many workers serve a session.
func (w *world) busyAll(n int) control.Pool {
	w.Helper()
	return w.eventuallyPool(fmt.Sprintf("%d workers are busy", n), func(p control.Pool) bool { return p.Busy == n })
}

func TestKilledSupervisorCostsNothing(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.habit("PRINT", "40")
		w.up("--workers", "4")
		session := w.api.add(12 * time.Second)
		before := w.busyAll(1)
		w.killSupervisor()
		// Output goes on while nobody reads it.
		w.eventually("the session is served on", func() bool { return w.api.state().Requests["devins.get"] > 3 })
		w.up("--workers", "4")
		after := w.eventuallyPool("the workers are taken over", func(p control.Pool) bool { return p.Running == 4 && p.Busy == 1 })
		if got, want := identities(after), identities(before); !slices.Equal(got, want) {
			w.Errorf("the workers changed:\n%+v\n%+v", want, got)
		}
		w.eventually("the session ends", func() bool { return w.api.session(session).Done })
		if holders := w.api.session(session).Holders; len(holders) != 1 {
			w.Errorf("the session had %d holders: %v", len(holders), holders)
		}
		w.eventuallyPool("all are idle", func(p control.Pool) bool { return p.Idle == 4 })
		for _, each := range after.Workers {
			w.checkLog(each.Name)
		}
	})
}

func TestManyKillsInARowLeaveNoGapAndNoRepeat(t *testing.T) {
	w := newWorld(t)
	w.habit("PRINT", "100")
	w.up("--workers", "3")
	var sessions []string
	for range 3 {
		sessions = append(sessions, w.api.add(0))
	}
	before := w.busyAll(3)
	dice := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		p := w.start("up", "-d")
		if r := p.wait(commandLimit); r.code != 0 {
			w.Fatal(r)
		}
		// At some moment of its work, also in the middle of taking over.
		time.Sleep(time.Duration(dice.IntN(400)) * time.Millisecond)
		w.killSupervisor()
	}
	w.up()
	after := w.busyAll(3)
	if got, want := identities(after), identities(before); !slices.Equal(got, want) {
		w.Errorf("the workers changed:\n%+v\n%+v", want, got)
	}
	for _, id := range sessions {
		w.api.terminate(id)
	}
	w.eventuallyPool("all are idle", func(p control.Pool) bool { return p.Idle == 3 })
	for _, id := range sessions {
		if holders := w.api.session(id).Holders; len(holders) != 1 {
			w.Errorf("%s had %d holders: %v", id, len(holders), holders)
		}
	}
	for _, each := range after.Workers {
		w.checkLog(each.Name)
	}
}

func TestKillWhileStartingLeavesOneLifePerWorker(t *testing.T) {
	w := newWorld(t)
	w.habit("PRINT", "20")
	for round := range 6 {
		p := w.start("up", "--workers", "4")
		w.eventually("the supervisor answers", func() bool { _, answers := w.peek(); return answers })
		// Creating, launching and recording are all under way in this time.
		time.Sleep(time.Duration(round*60) * time.Millisecond)
		w.killSupervisor()
		p.wait(10 * time.Second)
	}
	w.up()
	after := w.eventuallyPool("four workers run", func(p control.Pool) bool { return p.Idle == 4 })
	for _, each := range after.Workers {
		if each.Generation != 1 || !strings.HasSuffix(each.Acceptor, strings.TrimPrefix(each.Name, "web-")) {
			w.Errorf("%+v", each)
		}
	}
	if lives := w.workerProcesses(); len(lives) != 4 {
		w.Errorf("%d workers live, not 4: %v", len(lives), lives)
	}
}

func TestUpgradeInterruptsNoSession(t *testing.T) {
	w := newWorld(t)
	w.habit("PRINT", "20")
	w.up("--workers", "4")
	var sessions []string
	for range 4 {
		sessions = append(sessions, w.api.add(0))
	}
	before := w.busyAll(4)
	w.must("down", "--leave")
	if _, answers := w.peek(); answers {
		w.Fatal("the supervisor is still there after down --leave")
	}
	if lives := w.workerProcesses(); len(lives) != 4 {
		w.Fatalf("%d workers live on, not 4: %v", len(lives), lives)
	}
	second := w.dir + "/pool.v2"
	if err := build(second, "-race", "-ldflags", "-X main.version=v2"); err != nil {
		w.Fatal(err)
	}
	w.install(second, w.binary)
	w.up()
	after := w.busyAll(4)
	if after.Version != "v2" || before.Version == "v2" {
		w.Errorf("version %q, then %q", before.Version, after.Version)
	}
	if got, want := identities(after), identities(before); !slices.Equal(got, want) {
		w.Errorf("the workers changed:\n%+v\n%+v", want, got)
	}
	for _, id := range sessions {
		w.api.terminate(id)
	}
	w.eventuallyPool("all are idle", func(p control.Pool) bool { return p.Idle == 4 })
	for _, id := range sessions {
		if s := w.api.session(id); len(s.Holders) != 1 {
			w.Errorf("%+v", s)
		}
	}
	w.checkLog("web-0")
}

// workerProcesses are the stand-ins that live, without bubblewrap around them.
func (w *world) workerProcesses() map[int]string {
	found := map[int]string{}
	for pid, line := range w.processes() {
		if strings.HasPrefix(line, w.devin+" __worker start") {
			found[pid] = line
		}
	}
	return found
}

var numbered = regexp.MustCompile(`(?m)^line (\d+)$`)

// checkLog reads a worker's whole log: the stand-in numbers its lines, so a
// gap, a repeat or a torn line shows.
func (w *world) checkLog(name string) {
	w.Helper()
	var found [][]string
	w.eventually("lines of "+name, func() bool {
		found = numbered.FindAllStringSubmatch(w.must("logs", "--tail", "all", name).out, -1)
		return len(found) > 20
	})
	for i, line := range found {
		if line[1] != strconv.Itoa(i+1) {
			around := found[max(0, i-2):min(len(found), i+3)]
			w.Errorf("%s: line %d of the log is %q; around it: %q", name, i+1, line[0], around)
			return
		}
	}
}
