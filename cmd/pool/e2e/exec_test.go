package e2e

import (
	"bytes"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

func TestExecReadsWhatASessionWrote(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "1")
		id := w.api.add(time.Second)
		w.eventually("the session is served", func() bool { return w.api.session(id).Done })
		r := w.must("exec", "web-0", "--", "cat", "outpost-proof.txt")
		if !strings.Contains(r.out, "session "+id+" served by web-") || r.err != "" {
			w.Error(r)
		}
		if again := w.must("exec", "0", "--", "sh", "-c", `cat "$WORKSPACE/outpost-proof.txt"`); again.out != r.out {
			w.Errorf("by its number and through $WORKSPACE: %s", again)
		}
	})
}

func TestExecShowsNoSecret(t *testing.T) {
	bothIsolations(t, func(w *world) {
		const secret = "npm_hush_7d1f0b2c93"
		w.env["MY_NPM"] = secret
		w.set("worker.secret_env.NPM_TOKEN.env", "MY_NPM")
		w.set("worker.env.PLAIN", "plain value")
		w.up("--workers", "1")
		r := w.must("exec", "web-0", "--", "env")
		if strings.Contains(r.out, secret) || strings.Contains(r.out, token) || strings.Contains(r.out, "NPM_TOKEN") || strings.Contains(r.out, "DEVIN_OUTPOSTS_TOKEN") {
			w.Errorf("a secret shows: %s", r)
		}
		for _, want := range []string{"PLAIN=plain value", "WORKSPACE=/", "HOME=/", "DEVIN_WORKER_ACCEPTOR_ID="} {
			if !strings.Contains(r.out, want) {
				w.Errorf("no %s in %s", want, r)
			}
		}
		// The worker has them, or this test shows nothing.
		for pid := range w.workerProcesses() {
			env, err := os.ReadFile(procPath(pid, "environ"))
			if err != nil || !bytes.Contains(env, []byte("NPM_TOKEN="+secret)) || !bytes.Contains(env, []byte("DEVIN_OUTPOSTS_TOKEN="+token)) {
				w.Errorf("the worker lacks its secrets: %v", err)
			}
		}
	})
}

func TestExecPassesOnTheExactExitCode(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "1")
		for code, command := range map[int][]string{
			0:   {"true"},
			1:   {"false"},
			7:   {"sh", "-c", "exit 7"},
			126: {"/etc/passwd"},
			127: {"no-such-program"},
			137: {"sh", "-c", "kill -9 $$"},
		} {
			if r := w.run(append([]string{"exec", "web-0", "--"}, command...)...); r.code != code {
				w.Errorf("want %d: %s", code, r)
			}
		}
		for _, code := range []string{"3", "126", "127", "125", "255"} {
			if r := w.run("exec", "web-0", "--", "sh", "-c", "exit "+code); r.code != number(code) {
				w.Errorf("want %s: %s", code, r)
			}
		}
		if r := w.run("exec", "web-7", "--", "true"); r.code != 125 || !strings.Contains(r.err, "web-0") {
			w.Errorf("no such worker: %s", r)
		}
	})
}

func TestExecPassesBytesExactly(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "1")
		sent := make([]byte, 3<<20)
		if _, err := rand.Read(sent); err != nil {
			w.Fatal(err)
		}
		r := w.runWith(bytes.NewReader(sent), "exec", "-i", "web-0", "--", "sh", "-c", "tee copy; echo done >&2; exit 9")
		if r.code != 9 || r.err != "done\n" || !bytes.Equal([]byte(r.out), sent) {
			w.Errorf("exit code %d, stderr %q, %d of %d bytes came back, the same: %v", r.code, r.err, len(r.out), len(sent), bytes.Equal([]byte(r.out), sent))
		}
		if r := w.must("exec", "web-0", "--", "cat", "copy"); !bytes.Equal([]byte(r.out), sent) {
			w.Errorf("%d of %d bytes are in the sandbox", len(r.out), len(sent))
		}
		// Without -i nothing is read and nothing hangs.
		if r := w.runWith(strings.NewReader("unwanted"), "exec", "web-0", "--", "cat"); r.code != 0 || r.out != "" {
			w.Error(r)
		}
	})
}

func TestExecWorksInBackoff(t *testing.T) {
	w := newWorld(t)
	w.habit("CRASH", "1")
	w.set("restart.initial", "1m")
	w.set("worker.start_window", "3s")
	if r := w.run("up", "-d", "--workers", "1"); r.code == 0 || !strings.Contains(r.err, "web-0") {
		t.Errorf("up with workers that die at once must say so: %s", r)
	}
	w.eventuallyPool("the worker waits to be restarted", func(p control.Pool) bool { return worker(p, "web-0").State == "backoff" })
	if r := w.must("exec", "web-0", "--", "sh", "-c", "echo hello from $PWD"); !strings.HasPrefix(r.out, "hello from /") {
		t.Error(r)
	}
	if p := w.status(); worker(p, "web-0").State != "backoff" {
		t.Errorf("not in backoff any more: %+v", worker(p, "web-0"))
	}
}

func TestACutConnectionIsNoSuccess(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "1")
		p := w.start("exec", "web-0", "--", "sh", "-c", "echo begun; sleep 600; exit 7")
		w.eventually("the command runs", func() bool { return p.out.String() == "begun\n" })
		w.killSupervisor()
		if r := p.wait(30 * time.Second); r.code != 125 || r.err == "" {
			w.Errorf("want 125 and a reason: %s", r)
		}
		w.up() // what the command left must go with the sandbox
	})
}
