package e2e

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // to write a state file from the future

	"github.com/outpostpool/pool/pool/control"
)

// ran starts a pool of one worker and takes it down, so that there is a state
// folder with a history.
func (w *world) ran() {
	w.Helper()
	w.set("pool.workers", 1)
	w.up()
	w.must("down", "--now")
}

func TestAStateFileFromTheFutureIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.ran()
	file := filepath.Join(w.state, "pool.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	w.refuse(1, []string{"up", "-d", "--force"}, file, "newer version", "upgrade")
	w.refuse(1, []string{"up"}, file, "newer version", "upgrade")
	w.refuse(1, []string{"up", "-d"}, file, "newer version", "upgrade")
}

func TestADamagedStateFileIsLeftAloneAndLosesNoSandbox(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 2)
	w.up()
	before := w.eventuallyPool("two run", func(p control.Pool) bool { return p.Running == 2 })
	w.killSupervisor()
	file := filepath.Join(w.state, "pool.db")
	for _, each := range []string{file + "-wal", file + "-shm"} {
		if err := os.Remove(each); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	w.write(file, strings.Repeat("not a database\n", 1000), 0o600)
	w.refuse(1, []string{"up", "-d"}, file, "move it away")
	w.refuse(1, []string{"up"}, file, "move it away")
	if lives := w.workerProcesses(); len(lives) != 2 {
		t.Errorf("%d workers live on, not 2", len(lives))
	}
	// What the message advises: the history is lost, the sandboxes are not.
	if err := os.Rename(file, file+".damaged"); err != nil {
		t.Fatal(err)
	}
	w.up()
	after := w.eventuallyPool("two run again", func(p control.Pool) bool { return p.Running == 2 })
	for i, each := range after.Workers {
		was := before.Workers[i]
		if each.PID != was.PID || each.Acceptor != was.Acceptor || each.Sandbox != was.Sandbox {
			t.Errorf("%s was pid %d %s %s, is pid %d %s %s", each.Name, was.PID, was.Acceptor, was.Sandbox, each.PID, each.Acceptor, each.Sandbox)
		}
	}
}

func TestStaleSocketAndLockOfAnotherProgram(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	if err := os.MkdirAll(w.state, 0o700); err != nil {
		t.Fatal(err)
	}
	// A lock's text names a living process that is none of ours, and nobody
	// listens on the socket: both are what a crash leaves once pids go round.
	w.write(filepath.Join(w.state, "pool.lock"), fmt.Sprintln(os.Getpid()), 0o600)
	socket := filepath.Join(w.state, control.SocketName)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	w.checkRefusal(w.run("status"), 3, "pool up")
	w.up()
	if p := w.status(); p.Running != 1 || p.PID == os.Getpid() {
		t.Errorf("%+v", p)
	}
}

func TestTheLockHeldByAnotherProgramIsSaid(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.state, "pool.lock"), "", 0o600)
	file, err := os.OpenFile(filepath.Join(w.state, "pool.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	w.refuse(1, []string{"up", "-d"}, "another supervisor", "pool.lock")
}

func TestSomethingElseAtTheSocketsPathIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	socket := filepath.Join(w.state, control.SocketName)
	w.write(socket, "somebody's notes\n", 0o600)
	w.refuse(1, []string{"up", "-d"}, socket, "not a socket")
	w.refuse(1, []string{"up"}, socket, "not a socket")
	if text, err := os.ReadFile(socket); err != nil || string(text) != "somebody's notes\n" {
		t.Errorf("the file at the socket's path: %q, %v", text, err)
	}
	if err := os.Remove(socket); err != nil { // the world itself looks there at its end
		t.Fatal(err)
	}
}

func TestTwoPoolsOnOneStateFolder(t *testing.T) {
	w := newWorld(t)
	w.state = filepath.Join(w.dir, "s", "shared")
	w.set("pool.state_dir", w.state)
	w.set("pool.workers", 1)
	w.up()
	before := w.status()
	text, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(w.dir, "db.toml")
	w.write(other, strings.Replace(string(text), `"web"`, `"db"`, 1), 0o600)
	for _, args := range [][]string{{"up", "-d"}, {"up"}, {"up", "-d", "--workers", "3"}, {"scale", "3"}, {"down", "--now"}} {
		r := w.run(append([]string{"--config", other}, args...)...)
		w.checkRefusal(r, 1, "web", "db", w.state, "state_dir")
	}
	if after := w.status(); after.PID != before.PID || after.Desired != 1 || after.Running != 1 {
		t.Errorf("the first pool was touched: %+v", after)
	}
	// Also once the first is down: its workspaces are not the second's.
	w.must("down", "--now")
	w.refuse(1, []string{"--config", other, "up", "-d", "--force"}, "web", "db", "state_dir")
	w.up("--force")
}
