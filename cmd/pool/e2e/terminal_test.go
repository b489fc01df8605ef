package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/outpostpool/pool/pool/control"
)

// terminal is a real terminal with a shell in it, in a tmux of its own.
type terminal struct {
	w      *world
	socket string
}

const prompt = "ready> "

// terminal opens a terminal of that size with a shell in the world's folder.
func (w *world) terminal(cols, rows int) *terminal {
	w.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		w.Skip("tmux is not installed")
	}
	t := &terminal{w, filepath.Join(w.dir, "tmux")}
	t.tmux("-f", "/dev/null", "new-session", "-d", "-s", "e2e", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows),
		"-c", w.dir, "env", "PS1="+prompt, "ENV=", "sh")
	t.tmux("set-option", "-g", "status", "off")
	t.tmux("set-option", "-g", "window-size", "manual")
	t.resize(cols, rows) // the line that the status took
	w.Cleanup(func() { _ = t.command("kill-server").Run() })
	t.shows(strings.TrimSpace(prompt))
	return t
}

func (t *terminal) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", t.socket}, args...)...)
	cmd.Env, cmd.Dir = t.w.environ(), t.w.dir
	return cmd
}

func (t *terminal) tmux(args ...string) string {
	t.w.Helper()
	out, err := t.command(args...).CombinedOutput()
	if err != nil {
		t.w.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// line types a line.
func (t *terminal) line(text string) {
	t.w.Helper()
	t.tmux("send-keys", "-l", text)
	t.tmux("send-keys", "Enter")
}

func (t *terminal) resize(cols, rows int) {
	t.w.Helper()
	t.tmux("resize-window", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows))
}

func (t *terminal) screen() string {
	t.w.Helper()
	return t.tmux("capture-pane", "-p")
}

// shows waits until the screen has the text.
func (t *terminal) shows(text string) {
	t.w.Helper()
	var screen string
	defer func() {
		if t.w.Failed() {
			t.w.Logf("the screen:\n%s", screen)
		}
	}()
	t.w.eventually("the terminal shows "+strconv.Quote(text), func() bool {
		screen = t.screen()
		return strings.Contains(screen, text)
	})
}

func TestExecGivesAShellOfTheRightSize(t *testing.T) {
	bothIsolations(t, func(w *world) {
		w.up("--workers", "1")
		term := w.terminal(101, 31)
		term.line("stty -g > before")
		term.line("./pool exec -it web-0 -- sh")
		term.line("test -t 0 && test -t 1 && test -t 2 && echo size=$(stty size)")
		term.shows("size=31 101")
		term.resize(77, 23)
		// The command learns of it a moment later.
		term.line("until [ \"$(stty size)\" = '23 77' ]; do sleep 0.1; done; echo now=$(stty size)")
		term.shows("now=23 77")
		// Keys reach the command: Ctrl-C ends a sleep there, not pool here.
		term.line("trap 'echo got int' INT; echo sleeping; sleep 600; echo slept=$?")
		term.shows("\nsleeping")
		term.tmux("send-keys", "C-c")
		term.shows("got int")
		term.line("exit 7")
		w.execEnds()
		term.line("echo code=$?; stty -g > after")
		term.shows("code=7")
		w.eventually("the terminal's settings are written", func() bool { return read(filepath.Join(w.dir, "after")) != "" })
		if before, after := read(filepath.Join(w.dir, "before")), read(filepath.Join(w.dir, "after")); before != after {
			w.Errorf("the terminal was %s and is %s", before, after)
		}
	})
}

func TestACutShellGivesTheTerminalBack(t *testing.T) {
	w := newWorld(t)
	w.up("--workers", "1")
	term := w.terminal(100, 30)
	term.line("stty -g > before")
	term.line("./pool exec -it web-0 -- sh")
	term.line("echo in=$((40+2))")
	term.shows("in=42")
	w.killSupervisor()
	w.execEnds()
	term.line("echo code=$?; stty -g > after")
	term.shows("code=125")
	w.eventually("the terminal's settings are written", func() bool { return read(filepath.Join(w.dir, "after")) != "" })
	if before, after := read(filepath.Join(w.dir, "before")), read(filepath.Join(w.dir, "after")); before != after {
		t.Errorf("the terminal was %s and is %s", before, after)
	}
	w.up()
}

func TestAClosedTerminalStopsNothing(t *testing.T) {
	w := newWorld(t)
	term := w.terminal(100, 30)
	term.line("./pool up --workers 2")
	id := w.api.add(0)
	before := w.eventuallyPool("two workers run, one serves", func(p control.Pool) bool { return p.Running == 2 && p.Busy == 1 })
	term.tmux("kill-session")
	w.eventually("the terminal is gone", func() bool { return term.command("has-session").Run() != nil })
	// A supervisor that had begun to stop would have told it by now.
	other := w.api.add(0)
	after := w.eventuallyPool("new work is still taken", func(p control.Pool) bool { return p.Busy == 2 })
	if after.PID != before.PID || after.State != control.PoolRunning {
		t.Errorf("supervisor %d, then %d, which is %s", before.PID, after.PID, after.State)
	}
	for i, was := range identities(before) {
		if is := identities(after)[i]; is != was {
			t.Errorf("%+v became %+v", was, is)
		}
	}
	w.api.terminate(id)
	w.api.terminate(other)
}

// execEnds waits for the end of every exec; what is typed before that may
// still be meant for its command.
func (w *world) execEnds() {
	w.Helper()
	w.eventually("exec has ended", func() bool {
		for _, line := range w.processes() {
			if strings.Contains(line, "pool exec ") {
				return false
			}
		}
		return true
	})
}

func read(file string) string {
	text, _ := os.ReadFile(file)
	return strings.TrimSpace(string(text))
}
