package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logBytes is what a worker's log takes on disk, rotated files included.
func (w *world) logBytes(name string) (sum int64) {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(w.state, "logs", name+".log*"))
	if err != nil || len(files) == 0 {
		w.Fatalf("no log of %s: %v", name, err)
	}
	for _, each := range files {
		// One that rotates away this moment takes nothing any more.
		if info, err := os.Stat(each); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// lineRoom is what a log may be over its limit: the line under way, and the
// first line of a file.
const lineRoom = 4096

func TestAFloodKeepsToItsDiskAndShowsItsNewestLines(t *testing.T) {
	w := newWorld(t)
	const size, files = 200_000, 3
	w.set("pool.workers", 2)
	w.set("logs.max_size", "200KB")
	w.set("logs.max_files", files)
	w.habit("FLOOD", "20000000")
	w.up()
	w.eventually("the log has gone round", func() bool { return w.logBytes("web-0") > (files-1)*size })
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if sum := w.logBytes("web-0"); sum > files*(size+lineRoom) {
			t.Fatalf("the log takes %d bytes, more than %d files of %d", sum, files, size)
		}
	}
	lines := strings.Split(strings.TrimSpace(w.must("logs", "--tail", "5", "web-0").out), "\n")
	if len(lines) != 5 || !strings.Contains(lines[4], "flood") {
		t.Errorf("the last 5 lines: %q", lines)
	}
	if p := w.status(); p.Running != 2 {
		t.Errorf("%+v", p)
	}
}

func TestWhatIsSkippedOfAFloodIsSaid(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	w.set("logs.max_size", "1GB") // so that the line in question stays to be found
	w.habit("FLOOD", "15000000")
	w.up()
	w.killSupervisor()
	raw, err := filepath.Glob(filepath.Join(w.state, "sandboxes", "web-*-0-g1", "run", "worker.log"))
	if err != nil || len(raw) != 1 {
		t.Fatalf("the worker's raw output: %v, %v", raw, err)
	}
	began, err := os.Stat(raw[0])
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("80 MB wait", func() bool {
		info, err := os.Stat(raw[0])
		return err == nil && info.Size() > began.Size()+80_000_000
	})
	w.up()
	w.eventually("the log says what was skipped", func() bool {
		text, err := os.ReadFile(filepath.Join(w.state, "logs", "web-0.log"))
		return err == nil && strings.Contains(string(text), "bytes of output: more than 64 MB were waiting")
	})
}

func TestAnEndlessLineAndBinaryHarmNothing(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	w.set("logs.line_limit", "1KB")
	w.habit("ENDLESS", "1")
	w.habit("BINARY", "1")
	w.habit("ESCAPES", "1")
	w.habit("WIDE", "1")
	w.habit("PRINT", "20")
	w.up()
	w.eventually("lines come through", func() bool {
		return strings.Contains(w.must("logs", "--tail", "all", "web-0").out, "line 100")
	})
	for line := range strings.Lines(w.must("logs", "--tail", "all", "web-0").out) {
		if len(line) > 1000+200 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	shell := w.terminal(100, 30)
	shell.line("clear; " + w.binary + " logs --tail 200 web-0; echo over-$((1+1))")
	shell.shows("over-2")
	if screen := shell.screen(); !strings.Contains(screen, "line") {
		t.Errorf("the terminal was wrecked:\n%s", screen)
	}
	w.checkLogIsServed()
}

// checkLogIsServed looks whether the pool still does its work.
func (w *world) checkLogIsServed() {
	w.Helper()
	session := w.api.add(time.Second)
	w.eventually("a session is served", func() bool { return w.api.session(session).Done })
}

func TestAReaderThatNeverReadsHarmsNobody(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 2)
	w.set("logs.max_size", "1MB")
	w.habit("FLOOD", "3000000")
	w.up()
	stuck := w.start("logs", "-f", "web-0")
	w.eventually("it has begun to read", func() bool { return stuck.out.String() != "" })
	stuck.signal(syscall.SIGSTOP)
	reader := w.start("logs", "-f", "--tail", "1", "web-0")
	w.eventually("another reader reads on", func() bool { return len(reader.out.String()) > 5_000_000 })
	began := time.Now()
	w.must("status")
	w.must("logs", "--tail", "3", "web-1")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("two commands took %s", took)
	}
	w.checkLogIsServed()
	stuck.signal(syscall.SIGCONT)
	for _, p := range []*process{stuck, reader} {
		p.signal(syscall.SIGINT)
		if r := p.wait(20 * time.Second); r.code != 130 {
			t.Errorf("logs -f after Ctrl-C: exit code %d, %s", r.code, r.err)
		}
	}
	if p := w.status(); p.Running != 2 || worker(p, "web-0").RestartsTotal != 0 {
		t.Errorf("%+v", p)
	}
}
