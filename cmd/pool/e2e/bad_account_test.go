package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

// doctorSays runs doctor, which must fail and hold these words in a check that
// failed.
func (w *world) doctorSays(check string, says ...string) {
	w.Helper()
	r := w.run("doctor")
	if r.code != 1 || strings.Contains(r.out+r.err, token) || strings.Contains(r.out+r.err, otherToken) {
		w.Errorf("%s\nwant exit code 1 and no secret", r)
	}
	for line := range strings.Lines(r.out) {
		words := strings.Fields(line)
		if len(words) > 2 && words[0] == "fail" && words[1] == check && containsAll(line, says) {
			return
		}
	}
	w.Errorf("%s\nno failed check %q with %q", r, check, says)
}

func containsAll(text string, all []string) bool {
	for _, each := range all {
		if !strings.Contains(text, each) {
			return false
		}
	}
	return true
}

// refusedUp tries both ways of up, and doctor: each must say the same.
func (w *world) refusedUp(code int, check string, says ...string) {
	w.Helper()
	w.refuse(code, []string{"up", "-d"}, says...)
	w.refuse(code, []string{"up", "--workers", "2"}, says...)
	w.doctorSays(check, says...)
}

func TestBadTokens(t *testing.T) {
	w := newWorld(t)
	w.env["DEVIN_OUTPOSTS_TOKEN"] = ""
	w.refusedUp(2, "account", "no token", "DEVIN_OUTPOSTS_TOKEN", "--env-file", "token_file")

	w.env["DEVIN_OUTPOSTS_TOKEN"] = otherToken
	w.refusedUp(1, "outpost", "401", "outpost")

	w.env["DEVIN_OUTPOSTS_TOKEN"] = token
	w.api.fault(outposttest.Fault{Kind: outposttest.FaultStatus, Status: 403, Detail: "Forbidden", Op: "outposts.list"})
	w.refusedUp(1, "outpost", "403", "Run outpost workers")
	if err := w.api.remote.ClearFaults(context.Background()); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(w.dir, "token")
	w.write(file, token+"\n", 0o644)
	w.set("outpost.token_file", file)
	w.refusedUp(1, "token", file, "chmod 600")
	w.write(file, "", 0o600)
	w.refusedUp(1, "token", file, "empty")
	w.set("outpost.token_file", file+".none")
	w.refusedUp(1, "token", file+".none")
	w.write(file, token+"\n", 0o600)
	w.set("outpost.token_file", file)
	w.set("pool.workers", 1)
	w.env["DEVIN_OUTPOSTS_TOKEN"] = ""
	w.up()
}

func TestBadOutposts(t *testing.T) {
	w := newWorld(t)
	if _, err := w.api.remote.AddOutpost(context.Background(), outposttest.Outpost{Name: "elsewhere", Platform: "windows"}); err != nil {
		t.Fatal(err)
	}
	w.set("outpost.name", "e2f")
	w.refusedUp(1, "outpost", "e2f", "e2e", "elsewhere")
	w.set("outpost.name", "elsewhere")
	w.refusedUp(1, "platform", "elsewhere", "windows", "linux")
	w.api.fault(outposttest.Fault{Kind: outposttest.FaultStatus, Status: 404, Detail: "Not Found", Op: "outposts.list"})
	w.set("outpost.name", "e2e")
	w.refusedUp(1, "outpost", "404")
	w.set("outpost.name", "")
	w.refusedUp(2, "account", "no outpost", "--outpost", "OUTPOST_ID")
}

func TestWithTheAPIAwayThePoolStartsAndSaysSo(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	w.habit("HANG", "1")
	w.api.fault(outposttest.Fault{Kind: outposttest.FaultStatus, Status: 500})
	if r := w.up(); !strings.Contains(r.err, "does not answer") {
		t.Errorf("%s\nsays nothing of the API", r)
	}
	w.eventually("the view is marked stale", func() bool { return w.status().API.State == "stale" })
}

func TestBadPrograms(t *testing.T) {
	w := newWorld(t)
	w.set("worker.command", []string{"devin", "worker", "start", "--outpost={outpost}"})
	if found, err := os.Stat("/usr/local/bin/devin"); err == nil {
		t.Skipf("a real CLI is installed here: %s", found.Name())
	}
	w.refusedUp(1, "worker", "devin is not in", ".local/bin", "install")
	link := filepath.Join(w.home, ".local", "bin", "devin")
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../share/devin/cli/_versions/current/bin/devin", link); err != nil {
		t.Fatal(err)
	}
	w.refusedUp(1, "worker", link, "leads nowhere", "devin update")
	w.set("worker.command", []string{filepath.Join(w.dir, "nothing"), "start"})
	w.refusedUp(1, "worker", filepath.Join(w.dir, "nothing"), "[worker] command")
	w.write(filepath.Join(w.dir, "nothing"), "#!/bin/sh\n", 0o600)
	w.refusedUp(1, "worker", filepath.Join(w.dir, "nothing"))
}

func TestACLIThatOnlyKnowsPoolIsServed(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	w.habit("ONLY_POOL", "1")
	w.up()
	session := w.api.add(0)
	w.busyAll(1)
	w.api.terminate(session)
	w.eventuallyPool("it is idle again", func(p control.Pool) bool { return p.Idle == 1 })
	for _, line := range w.workerProcesses() {
		if strings.Contains(line, "--outpost") || !strings.Contains(line, "--pool=") {
			t.Errorf("the worker runs as %q", line)
		}
	}
}

func TestALimitThatCannotBeSetIsRefused(t *testing.T) {
	w := newWorld(t)
	w.set("sandbox.disk", "1GB")
	w.refusedUp(1, "limits", "disk", "[sandbox]")
}
