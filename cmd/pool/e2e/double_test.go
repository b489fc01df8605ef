package e2e

import (
	"bufio"
	"context"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

// double is the outpost's double in a process of its own.
type double struct {
	w      *world
	URL    string
	remote outposttest.Remote
	cmd    *exec.Cmd
	said   *buffer // on stderr
}

// tokensEnv tells the double which tokens it accepts.
const tokensEnv = "E2E_TOKENS"

func startDouble(w *world, listen string) *double {
	w.Helper()
	d := &double{w: w, said: &buffer{}}
	d.cmd = exec.Command(w.devin, "__outpost", "--listen", listen, "--outpost", "e2e:linux", "--token-env", tokensEnv)
	d.cmd.Env = append(w.environ(), tokensEnv+"="+token)
	d.cmd.Dir = w.dir
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.Stderr = d.said
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		d.stop()
		w.Fatalf("the double told no address: %v\n%s", err, d.said)
	}
	d.URL = strings.TrimSpace(line)
	d.remote = outposttest.Remote{URL: d.URL, HTTP: &http.Client{Timeout: 20 * time.Second}}
	return d
}

// stop ends the double's process; stopped already is fine.
func (d *double) stop() {
	if d == nil || d.cmd.ProcessState != nil {
		return
	}
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// restart starts the double again at its old address, with nothing in it.
func (d *double) restart() {
	d.w.Helper()
	d.w.api = startDouble(d.w, strings.TrimPrefix(d.URL, "http://"))
}

func (d *double) state() outposttest.State {
	d.w.Helper()
	state, err := d.remote.State(context.Background())
	if err != nil {
		d.w.Fatalf("%v (the double lives: %v; it said %q)", err, alive(d.cmd.Process.Pid), d.said)
	}
	return state
}

// session is the double's record of one session.
func (d *double) session(id string) outposttest.Session {
	d.w.Helper()
	for _, each := range d.state().Sessions {
		if each.ID == id {
			return each
		}
	}
	d.w.Fatalf("the double knows no session %s", id)
	return outposttest.Session{}
}

// add puts a session into the queue that is served for so long; 0: until it is
// terminated.
func (d *double) add(service time.Duration) string {
	d.w.Helper()
	return d.addScript(outposttest.Script{For: service})
}

func (d *double) addScript(s outposttest.Script) string {
	d.w.Helper()
	id, err := d.remote.AddSession(context.Background(), outposttest.NewSession{Script: s})
	if err != nil {
		d.w.Fatal(err)
	}
	return id
}

func (d *double) terminate(id string) {
	d.w.Helper()
	if err := d.remote.Terminate(context.Background(), id); err != nil {
		d.w.Fatal(err)
	}
}

// accept replaces the tokens that the double accepts.
func (d *double) accept(tokens ...string) {
	d.w.Helper()
	if err := d.remote.SetTokens(context.Background(), tokens, nil); err != nil {
		d.w.Fatal(err)
	}
}

func (d *double) fault(f outposttest.Fault) {
	d.w.Helper()
	if _, err := d.remote.SetFault(context.Background(), f); err != nil {
		d.w.Fatal(err)
	}
}

// addPrompt puts a session into the queue that is asked to do a task.
func (d *double) addPrompt(task string) string {
	d.w.Helper()
	return d.addScript(outposttest.Script{For: 2 * time.Second, Prompt: task})
}
