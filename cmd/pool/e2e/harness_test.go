package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/outpostpool/pool/pool/control"
)

const (
	// token is what the double accepts and the pool is given.
	token = "cog_e2e_5f0c1d7a9b3e4826_secret"
	// markEnv marks every process of a world; its value is the world's folder.
	markEnv = "POOL_E2E_WORLD"
	// patience is how long a condition may take to come true. It is generous:
	// the machine may be busy with other tests.
	patience = 40 * time.Second
	// commandLimit is how long a command of the program may run.
	commandLimit = 90 * time.Second
)

// world is one pool with all that it needs: folders, an outpost's double, a
// configuration. Nothing of it is shared with another test.
type world struct {
	*testing.T
	dir    string // short, since sockets lie in it
	home   string
	tmp    string // TMPDIR of the program
	state  string // the pool's own folder
	file   string // pool.toml
	binary string // the program
	devin  string // the stand-in for the CLI and the double of the outpost
	api    *double
	config map[string]any
	env    map[string]string

	allowViolations bool // the test breaks promises on purpose
	mayLeave        bool // what is left in the state folder is the test's own doing
}

// newWorld makes a world with four workers wanted and a double that runs. The
// test runs beside others. At its end the pool is taken down and everything
// must be gone.
func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return newWorldAlone(t)
}

// newWorldAlone is newWorld for a test that no other may disturb.
func newWorldAlone(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pe-")
	if err != nil {
		t.Fatal(err)
	}
	// A copy of its own names the world in every process's command line.
	w := &world{T: t, dir: dir, binary: filepath.Join(dir, "pool"), devin: filepath.Join(dir, "devin"), env: map[string]string{}}
	w.home, w.tmp, w.file = filepath.Join(dir, "home"), filepath.Join(dir, "tmp"), filepath.Join(dir, "pool.toml")
	w.state = filepath.Join(dir, "s", "pool", "web")
	for _, each := range []string{w.home, w.tmp, filepath.Join(dir, "s"), filepath.Join(dir, "races")} {
		if err := os.MkdirAll(each, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.install(binary, w.binary)
	w.install(standIn, w.devin)
	t.Cleanup(w.end)
	w.api = startDouble(w, "127.0.0.1:0")
	w.config = map[string]any{}
	w.set("pool.name", "web")
	w.set("pool.workers", 4)
	w.set("outpost.name", "e2e")
	w.set("outpost.api_url", w.api.URL)
	w.set("outpost.poll_interval", "1s")
	w.set("worker.command", []string{w.devin, "__worker", "start", "--outpost={outpost}"})
	w.set("worker.args", []string{"--poll-interval-secs=1"})
	w.set("worker.start_window", "300ms")
	w.set("worker.stop_grace", "5s")
	w.set("worker.env."+markEnv, dir)
	w.set("restart.initial", "200ms")
	return w
}

// set sets one key of pool.toml, by its path: "worker.env.POOLTEST_CRASH". The
// file is written at once.
func (w *world) set(path string, value any) {
	w.Helper()
	keys := strings.Split(path, ".")
	at := w.config
	for _, key := range keys[:len(keys)-1] {
		below, is := at[key].(map[string]any)
		if !is {
			below = map[string]any{}
			at[key] = below
		}
		at = below
	}
	at[keys[len(keys)-1]] = value
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(w.config); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(w.file, text.Bytes(), 0o600); err != nil {
		w.Fatal(err)
	}
}

// install puts a program into the world; as a link where that is possible.
func (w *world) install(from, to string) {
	w.Helper()
	_ = os.Remove(to) // a running program cannot be written
	if os.Link(from, to) == nil {
		return
	}
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o700)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// habit gives every worker an ability of the stand-in: habit("PRINT", "50").
func (w *world) habit(name, value string) {
	w.Helper()
	w.set("worker.env.POOLTEST_"+name, value)
}

// environ is the environment of the program's commands.
func (w *world) environ() []string {
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": w.home, "XDG_STATE_HOME": filepath.Join(w.dir, "s"), "TMPDIR": w.tmp,
		"POOL_CONFIG": w.file, "DEVIN_OUTPOSTS_TOKEN": token, markEnv: w.dir, "TERM": "xterm",
		// By default a program with the race detector waits a second at its end.
		"GORACE": "atexit_sleep_ms=0 log_path=" + filepath.Join(w.dir, "races", "race"),
	}
	for name, value := range w.env {
		env[name] = value
	}
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// result is what became of a command.
type result struct {
	args     []string
	code     int // -1: ended by a signal
	out, err string
}

func (r result) String() string {
	return fmt.Sprintf("pool %s: exit code %d\nstdout: %s\nstderr: %s", strings.Join(r.args, " "), r.code, r.out, r.err)
}

// run runs a command of the program to its end, whatever its exit code.
func (w *world) run(args ...string) result {
	w.Helper()
	return w.runWith(nil, args...)
}

// runWith is run with a standard input.
func (w *world) runWith(stdin io.Reader, args ...string) result {
	w.Helper()
	p := w.startWith(stdin, args...)
	return p.wait(commandLimit)
}

// must is run for a command that has to succeed.
func (w *world) must(args ...string) result {
	w.Helper()
	r := w.run(args...)
	if r.code != 0 {
		w.Fatalf("%s\n%s", r, w.report())
	}
	return r
}

// process is a command of the program that runs.
type process struct {
	w        *world
	cmd      *exec.Cmd
	out, err *buffer
	ended    chan struct{}
}

// start starts a command in the background. It is killed at the test's end
// unless it has ended.
func (w *world) start(args ...string) *process {
	w.Helper()
	return w.startWith(nil, args...)
}

func (w *world) startWith(stdin io.Reader, args ...string) *process {
	w.Helper()
	p := &process{w: w, cmd: exec.Command(w.binary, args...), out: &buffer{}, err: &buffer{}, ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = w.environ(), w.dir
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, p.out, p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 2 * time.Second // a child that keeps its output open must not hold us
	if err := p.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code is read from ProcessState
	}()
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.w.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.w.Fatalf("signal %v to pool %s: %v", s, strings.Join(p.cmd.Args[1:], " "), err)
	}
}

// wait waits for the end; a command that takes longer fails the test.
func (p *process) wait(limit time.Duration) result {
	p.w.Helper()
	args := p.cmd.Args[1:]
	select {
	case <-p.ended:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.w.Fatalf("pool %s did not end within %s\nstdout: %s\nstderr: %s\n%s", strings.Join(args, " "), limit, p.out, p.err, p.w.report())
	}
	return result{args: args, code: p.cmd.ProcessState.ExitCode(), out: p.out.String(), err: p.err.String()}
}

// buffer is a bytes.Buffer that can be read while a process writes it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// up starts the pool in the background, as a user does.
func (w *world) up(args ...string) result {
	w.Helper()
	return w.must(append([]string{"up", "-d"}, args...)...)
}

// status is `pool status -o json`.
func (w *world) status() control.Pool {
	w.Helper()
	r := w.must("status", "-o", "json")
	var p control.Pool
	if err := json.Unmarshal([]byte(r.out), &p); err != nil {
		w.Fatalf("status -o json: %v\n%s", err, r.out)
	}
	return p
}

// peek asks the socket for what status prints, which is cheaper to do often;
// false while no supervisor answers.
func (w *world) peek() (control.Pool, bool) {
	client := control.Dial(filepath.Join(w.state, control.SocketName))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p, err := client.Pool(ctx)
	return p, err == nil
}

// events is `pool events -o json`: everything that happened, oldest first.
func (w *world) events() []control.Event {
	w.Helper()
	r := w.must("events", "-n", "0", "-o", "json")
	var all []control.Event
	if err := json.Unmarshal([]byte(r.out), &all); err != nil {
		w.Fatalf("events -o json: %v\n%s", err, r.out)
	}
	return all
}

// worker finds one worker in a pool's status.
func worker(p control.Pool, name string) control.Worker {
	for _, w := range p.Workers {
		if w.Name == name {
			return w
		}
	}
	return control.Worker{}
}

// eventually polls a condition until it is true; the test fails when it does
// not come true in time.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	w.within(patience, what, is)
}

func (w *world) within(limit time.Duration, what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(limit); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not within %s\n%s", what, limit, w.report())
		}
	}
}

// eventuallyPool polls the pool's status until a condition holds and returns
// that status.
func (w *world) eventuallyPool(what string, is func(control.Pool) bool) (p control.Pool) {
	w.Helper()
	w.eventually(what, func() bool {
		var answers bool
		p, answers = w.peek()
		return answers && is(p)
	})
	return p
}

// supervisorPID is the pid of the pool's supervisor, from its status.
func (w *world) supervisorPID() int {
	w.Helper()
	p, answers := w.peek()
	if !answers {
		w.Fatalf("no supervisor answers\n%s", w.report())
	}
	return p.PID
}

// killSupervisor is kill -9; it returns when the process is gone.
func (w *world) killSupervisor() {
	w.Helper()
	pid := w.supervisorPID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.Fatal(err)
	}
	w.eventually("the killed supervisor is gone", func() bool { return !alive(pid) })
}

// report is what a failure message needs: the pool as it is and the end of the
// supervisor's log.
func (w *world) report() string {
	var b strings.Builder
	if p, answers := w.peek(); answers {
		fmt.Fprintf(&b, "pool: %s, %s\n", p.State, p.Detail)
		for _, each := range p.Workers {
			fmt.Fprintf(&b, "  %s %s pid %d gen %d (%s) session %+v last exit %+v\n", each.Name, each.State, each.PID, each.Generation, each.Reason, each.Session, each.LastExit)
		}
	} else {
		b.WriteString("pool: no supervisor answers\n")
	}
	for _, file := range []string{"supervisor.log", "up.out", "web-0.log"} {
		text, err := os.ReadFile(filepath.Join(w.state, "logs", file))
		if err == nil {
			fmt.Fprintf(&b, "--- end of %s\n%s\n", file, lastLines(string(text), 25))
		}
	}
	return b.String()
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// end takes the world down and fails the test for anything that is left.
func (w *world) end() {
	if w.Failed() {
		w.Logf("the world at the end:\n%s", w.report())
	}
	if _, answers := w.peek(); answers {
		down := w.start("down", "--now")
		select {
		case <-down.ended:
		case <-time.After(patience):
			w.Errorf("down --now did not end\nstderr: %s\n%s", down.err, w.report())
		}
		w.checkFiles()
	}
	if !w.allowViolations {
		w.checkViolations()
	}
	w.api.stop()
	w.checkProcesses()
	w.checkRaces()
	w.removeAll()
}

func (w *world) checkViolations() {
	state, err := w.api.remote.State(context.Background())
	if err != nil {
		return // the test stopped the double
	}
	for _, v := range state.Violations {
		w.Errorf("broken promise: %s", v)
	}
}

// checkRaces fails for what the race detector found in the supervisor or a
// command.
func (w *world) checkRaces() {
	reports, _ := filepath.Glob(filepath.Join(w.dir, "races", "*"))
	for _, each := range reports {
		text, _ := os.ReadFile(each)
		w.Errorf("data race:\n%s", text)
	}
}

func (w *world) removeAll() {
	// A test may have taken rights away.
	_ = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(w.dir); err != nil {
		w.Errorf("the world's folder cannot be removed: %v", err)
	}
}

// checkFiles looks at what a pool that is down has left. Its records, logs and
// workspaces are meant to stay; nothing else is.
func (w *world) checkFiles() {
	if w.mayLeave {
		return
	}
	if left, _ := filepath.Glob(filepath.Join(w.tmp, "*")); len(left) > 0 {
		w.Errorf("left in TMPDIR: %v", left)
	}
	if _, err := os.Lstat(filepath.Join(w.state, control.SocketName)); err == nil {
		w.Errorf("the socket is still there after down")
	}
	if left, _ := filepath.Glob(filepath.Join(w.state, ".writable-*")); len(left) > 0 {
		w.Errorf("left in the state folder: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err == nil && strings.Contains(string(mounts), w.dir) {
		w.Errorf("a mount below %s is left", w.dir)
	}
}

// goroutines has a supervisor in the background end with its stacks.
func (w *world) goroutines(pid int) string {
	_ = syscall.Kill(pid, syscall.SIGQUIT)
	for deadline := time.Now().Add(5 * time.Second); alive(pid) && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(w.state, "logs", "up.out"))
	_, stacks, _ := strings.Cut(string(text), "SIGQUIT")
	return stacks
}

// checkProcesses fails for every process of this world that still lives, and
// ends it.
func (w *world) checkProcesses() {
	deadline := time.Now().Add(5 * time.Second)
	for len(w.processes()) > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	for pid, line := range w.processes() {
		w.Errorf("left behind: %d %s\n%s", pid, line, threads(pid))
		if strings.HasPrefix(line, w.binary+" up") {
			w.Logf("what it does:\n%s", w.goroutines(pid))
		}
	}
	for round := 0; round < 20 && len(w.processes()) > 0; round++ {
		for pid := range w.processes() {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				w.Errorf("end %d: %v", pid, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}
