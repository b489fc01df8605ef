package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

func TestLaunchOnce(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		ctx := testContext(t)
		s := create(t, p, spec(0, 1))
		if _, err := s.Process(ctx); !providers.Is(err, providers.NotFound) {
			t.Fatalf("before any launch: %v", err)
		}
		first := start(t, s, "l1", "echo one >> runs; exec sleep 2020")
		again := start(t, s, "l1", "echo two >> runs")
		a, _ := first.Info(ctx)
		b, _ := again.Info(ctx)
		if a != b || a.LaunchID != "l1" || a.PID == 0 || time.Since(a.Started) > limit {
			t.Fatalf("%+v and %+v", a, b)
		}
		if _, err := s.Launch(ctx, "l2", script("true")); !providers.Is(err, providers.Conflict) {
			t.Fatalf("a second worker: %v", err)
		}
		eventually(t, "it ran", func() bool { return fileText(s, "runs") == "one" })
		if err := first.Signal(ctx, providers.KILL); err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, first); exit.Code != 137 || exit.Signal != 9 || !exit.Known {
			t.Fatalf("%+v", exit)
		}
		if exit := wait(t, start(t, s, "l1", "true")); exit.Code != 137 {
			t.Fatalf("an ended launch began anew: %+v", exit)
		}
		if err := first.Signal(ctx, providers.TERM); err != nil {
			t.Fatalf("a signal to an ended process: %v", err)
		}
		if exit := wait(t, start(t, s, "l2", "exit 3")); exit.Code != 3 || exit.Leftovers != "" {
			t.Fatalf("%+v", exit)
		}
	})
}

func TestAnotherProviderFindsTheWorker(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		ctx := testContext(t)
		s := create(t, p, spec(0, 1))
		run(t, s, "mkfifo go")
		before := start(t, s, "l1", "echo first; read -r x < go; echo second; exit 4")
		was, _ := before.Info(ctx)

		second := open(t, p.dir, p.isolation.Mode)
		found, err := second.Open(ctx, s.meta.Name)
		if err != nil {
			t.Fatal(err)
		}
		after, err := found.Process(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if now, err := after.Info(ctx); err != nil || now.PID != was.PID || now.LaunchID != was.LaunchID {
			t.Fatalf("%+v %v, was %+v", now, err, was)
		}
		ended := make(chan providers.Exit, 1)
		go func() { ended <- wait(t, after) }()
		run(t, s, "echo > go")
		if exit := <-ended; exit.Code != 4 || !exit.Known {
			t.Fatalf("%+v", exit)
		}
		if text := output(t, after); text != "first\nsecond\n" {
			t.Fatalf("%q", text)
		}
	})
}

func TestTheKeeperDies(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		ctx := testContext(t)
		s := create(t, p, spec(0, 1))
		w := start(t, s, "l1", "exec sleep 2121")
		if err := signalProcess(w.l.keeper(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the keeper is dead", func() bool { return !aliveNow(w.l.keeper()) })
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if exit, err := w.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the worker lives, but %+v %v", exit, err)
		}
		if _, err := s.Launch(ctx, "l2", script("true")); !providers.Is(err, providers.Conflict) {
			t.Fatalf("a second worker: %v", err)
		}
		if err := w.Signal(ctx, providers.KILL); err != nil {
			t.Fatal(err)
		}
		exit := wait(t, w)
		if exit.Known || exit.At.IsZero() {
			t.Fatalf("%+v", exit)
		}
		if again := wait(t, w); !again.At.Equal(exit.At) {
			t.Fatalf("one end, two times: %v and %v", exit.At, again.At)
		}
		wait(t, start(t, s, "l2", "true"))
	})
}

func TestSignalsReachWhatLeft(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		ctx := testContext(t)
		s := create(t, p, spec(0, 1))
		// A child, an orphan, a daemon in its own session, one that ignores TERM.
		w := start(t, s, "l1", `sleep 2222 & (sleep 2222 &) ; (setsid sleep 2222 &); (trap "" TERM; exec sleep 2222) & wait; wait; exec sleep 2222`)
		eventually(t, "the tree is up", func() bool { return sleepers(t, "2222") == 4 })
		if err := w.Signal(ctx, providers.STOP); err != nil {
			t.Fatal(err)
		}
		for _, p := range treeOf(t, w) {
			if line, _ := os.ReadFile("/proc/" + itoa(p.pid) + "/cmdline"); strings.HasPrefix(string(line), "sleep") && !p.stopped {
				t.Errorf("%d runs on", p.pid)
			}
		}
		if err := w.Signal(ctx, providers.CONT); err != nil {
			t.Fatal(err)
		}
		if err := w.Signal(ctx, providers.TERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all but one are gone", func() bool { return sleepers(t, "2222") == 1 })
		exit := wait(t, w)
		if exit.Code != 143 || !exit.Known || !strings.Contains(exit.Leftovers, `"sleep"`) {
			t.Fatalf("%+v", exit)
		}
		if err := w.Signal(ctx, providers.KILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all are gone", func() bool { return sleepers(t, "2222") == 0 })
	})
}

func treeOf(t *testing.T, w *Process) []proc {
	t.Helper()
	all, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	return w.s.tree(w.l, true)(all)
}

func TestLaunchClearsAwayWhatALaunchLeft(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		w := start(t, s, "l1", `(setsid sleep 2323 &); exit 1`)
		if exit := wait(t, w); exit.Leftovers == "" {
			t.Fatalf("%+v", exit)
		}
		wait(t, start(t, s, "l2", "true"))
		if n := sleepers(t, "2323"); n != 0 {
			t.Fatalf("%d of the first launch live beside the second", n)
		}
	})
}

// Walls that came with a new config must not hide a worker from before.
func TestAWorkerFromBeforeTheWalls(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "sandboxes"), "none")
	t.Cleanup(func() { removeAll(t, p) })
	s := create(t, p, spec(0, 1))
	start(t, s, "l1", "sleep 3535 & wait")
	eventually(t, "it is up", func() bool { return sleepers(t, "3535") == 1 })
	walled := open(t, p.dir, "bwrap")
	again, err := walled.openSandbox(testContext(t), s.meta.Name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := again.Process(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Signal(testContext(t), providers.TERM); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, w); exit.Code != 143 || exit.Leftovers != "" {
		t.Fatalf("%+v", exit)
	}
}

// Two sandboxes that use one launch id must not reach each other.
func TestSignalsStayInTheirSandbox(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		first, second := create(t, p, spec(0, 1)), create(t, p, spec(1, 1))
		start(t, first, "l1", "setsid sleep 2424 & exec sleep 2424")
		w := start(t, second, "l1", "setsid sleep 2424 & exec sleep 2424")
		eventually(t, "both are up", func() bool { return sleepers(t, "2424") == 4 })
		if err := w.Signal(testContext(t), providers.KILL); err != nil {
			t.Fatal(err)
		}
		if n := sleepers(t, "2424"); n != 2 {
			t.Fatalf("%d of the other's two processes live", n)
		}
	})
}

// Without walls a session can write the pid files; a process that is not of
// its tree must not be signalled for that.
func TestAForgedPidIsNotSignalled(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "sandboxes"), "none")
	t.Cleanup(func() { removeAll(t, p) })
	s := create(t, p, spec(0, 1))
	w := start(t, s, "l1", "exec sleep 2525")
	eventually(t, "the worker is up", func() bool { return sleepers(t, "2525") == 1 })
	victim, err := os.StartProcess("/bin/sleep", []string{"sleep", "2626"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Kill(); victim.Wait() }()
	who, _ := readProc(victim.Pid)
	forged := fmt.Sprintf("launch=l1\npid=%d\nstart=%d\nboot=%s\nkeeper=%[1]d\nkeeper_start=%[2]d\nat=1\n", who.pid, who.start, p.boot)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(p.dir, s.meta.Name, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("run/"+launch.PIDFile, forged)
	if err := w.Signal(testContext(t), providers.STOP); err != nil {
		t.Fatal(err)
	}
	write(launchFile, fmt.Sprintf(`{"launch_id":"l1","boot_id":%q,"worker":{"pid":%d,"start":%d},"keeper":{"pid":%[2]d,"start":%[3]d}}`, p.boot, who.pid, who.start))
	second := open(t, p.dir, "none")
	again, err := second.openSandbox(testContext(t), s.meta.Name)
	if err != nil {
		t.Fatal(err)
	}
	found, err := again.Process(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Signal(testContext(t), providers.KILL); err != nil {
		t.Fatal(err)
	}
	if err := again.Remove(testContext(t), false); err != nil {
		t.Fatal(err)
	}
	if now, ok := readProc(victim.Pid); !ok || now.zombie || now.stopped {
		t.Fatalf("an innocent process was signalled: %+v", now)
	}
	if n := sleepers(t, "2525"); n != 0 {
		t.Fatal("the worker lives on")
	}
}

func TestOutputFromAnyOffset(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		w := start(t, s, "l1", `printf 'a\000b\377'; head -c 100000 /dev/zero | tr '\0' x; printf end >&2`)
		wait(t, w)
		whole := output(t, w)
		if len(whole) != 100007 || !strings.HasPrefix(whole, "a\x00b\xffx") || !strings.HasSuffix(whole, "xend") {
			t.Fatalf("%d bytes", len(whole))
		}
		for _, offset := range []int64{1, 4096, 100004, 100007, 200000} {
			r, err := w.Output(testContext(t), offset)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			r.Close()
			if err != nil || string(data) != whole[min(int(offset), len(whole)):] {
				t.Errorf("from %d: %d bytes, %v", offset, len(data), err)
			}
		}
		if size, err := w.OutputSize(testContext(t)); err != nil || size != 100007 {
			t.Errorf("%d %v", size, err)
		}
		if err := w.Discard(testContext(t), 90000); err != nil {
			t.Fatal(err)
		}
		if tail := output(t, w)[90000:]; tail != whole[90000:] {
			t.Error("discarding took too much")
		}
	})
}

func TestOutputFollows(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		run(t, s, "mkfifo go")
		w := start(t, s, "l1", `while read -r x; do echo "$x"; [ "$x" != end ] || exit 0; done <> go`)
		r, err := w.Output(testContext(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		buffer := make([]byte, 100)
		for _, word := range []string{"one", "two", "end"} {
			run(t, s, "echo "+word+" > go")
			n, err := r.Read(buffer)
			if err != nil || string(buffer[:n]) != word+"\n" {
				t.Fatalf("%q %v", buffer[:n], err)
			}
		}
		if n, err := r.Read(buffer); n != 0 || err != io.EOF {
			t.Fatalf("%d %v", n, err)
		}
	})
}

func TestOutputEndsWithItsContext(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		w := start(t, s, "l1", "exec sleep 2727")
		ctx, cancel := context.WithCancel(testContext(t))
		r, err := w.Output(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := r.Read(make([]byte, 1))
			failed <- err
		}()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A session without walls swaps the log for something else.
func TestTheLogIsNoLink(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "sandboxes"), "none")
	t.Cleanup(func() { removeAll(t, p) })
	s := create(t, p, spec(0, 1))
	w := start(t, s, "l1", "exec sleep 2828")
	log := filepath.Join(p.dir, s.meta.Name, runDir, launch.LogFile)
	outside := filepath.Join(t.TempDir(), "outside")
	inside := filepath.Join(p.dir, s.meta.Name, metaFile)
	if err := os.WriteFile(outside, []byte("precious, and longer than a block"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, plant := range []func() error{
		func() error { return os.Symlink(outside, log) },
		func() error { return os.Symlink(inside, log) },
		func() error { return os.Symlink("../"+metaFile, log) },
		func() error { return syscall.Mkfifo(log, 0o600) },
		func() error { return os.Mkdir(log, 0o700) },
	} {
		if err := os.RemoveAll(log); err != nil {
			t.Fatal(err)
		}
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if r, err := w.Output(testContext(t), 0); err == nil {
			data := make([]byte, 10)
			n, _ := r.Read(data)
			t.Errorf("it was read: %q", data[:n])
		}
		if err := w.Discard(testContext(t), 20); err == nil {
			t.Error("it was discarded")
		}
	}
	if data, _ := os.ReadFile(outside); !strings.HasPrefix(string(data), "precious") {
		t.Errorf("%q", data)
	}
}

func TestSecretsTravelInTheEnvironmentOnly(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		c := script(`test "$TOKEN" = cog_verysecret && : > seen; exec sleep 2929`)
		c.Env = map[string]string{"TOKEN": "cog_verysecret"}
		w, err := s.Launch(testContext(t), "l1", c)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has the token", func() bool {
			_, err := os.Stat(filepath.Join(p.hostWorkspace(s.meta.Labels), "seen"))
			return err == nil
		})
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			if line, _ := os.ReadFile(name); strings.Contains(string(line), "cog_verysecret") && !strings.Contains(string(line), `test "$TOKEN"`) {
				t.Errorf("%s: %q", name, line)
			}
		}
		// The keeper has no need of it.
		if environ, err := os.ReadFile("/proc/" + itoa(w.(*Process).l.Keeper.PID) + "/environ"); err != nil || strings.Contains(string(environ), "TOKEN") {
			t.Errorf("%q %v", environ, err)
		}
		filepath.Walk(p.dir, func(path string, info os.FileInfo, err error) error {
			if data, _ := os.ReadFile(path); strings.Contains(string(data), "verysecret") {
				t.Errorf("in the file %s", path)
			}
			return nil
		})
	})
}

func TestEpochs(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		ctx := testContext(t)
		s := create(t, p, spec(0, 1))
		if err := s.RaiseEpoch(ctx, 3); err != nil {
			t.Fatal(err)
		}
		other := open(t, p.dir, p.isolation.Mode)
		theirs, err := other.openSandbox(testContext(t), s.meta.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := theirs.RaiseEpoch(ctx, 4); err != nil {
			t.Fatal(err)
		}
		if epoch, err := s.Epoch(ctx); err != nil || epoch != 4 {
			t.Fatalf("%d %v", epoch, err)
		}
		if err := s.RaiseEpoch(ctx, 3); !providers.Is(err, providers.Conflict) {
			t.Fatalf("lowered: %v", err)
		}
		if _, err := s.Launch(ctx, "l1", script("true")); !providers.Is(err, providers.Conflict) {
			t.Fatalf("launched by the old supervisor: %v", err)
		}
		w, err := theirs.Launch(ctx, "l2", script("exit 2"))
		if err != nil {
			t.Fatal(err)
		}
		if exit := wait(t, w); exit.Code != 2 {
			t.Fatalf("%+v", exit)
		}
		// The old one follows what the new one launched.
		if found, err := s.Process(ctx); err != nil || wait(t, found).Code != 2 {
			t.Fatal(err)
		}
		other.reapAll()
	})
}

func TestACancelledLaunchStartsNothingOrIsFoundAgain(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		for i := range 10 {
			ctx, cancel := context.WithTimeout(testContext(t), time.Duration(i)*2*time.Millisecond)
			w, err := s.Launch(ctx, "l1", script("echo x >> runs; exec sleep 3030"))
			cancel()
			if err == nil {
				if _, err := w.Info(testContext(t)); err != nil {
					t.Fatal(err)
				}
			} else if class := providers.ClassOf(err); class != providers.Unknown && class != providers.Transient && class != providers.Conflict {
				t.Fatalf("%v", err)
			}
		}
		start(t, s, "l1", "echo x >> runs; exec sleep 3030")
		eventually(t, "it runs", func() bool { return fileText(s, "runs") != "" })
		if n := sleepers(t, "3030"); fileText(s, "runs") != "x" || n > 1 {
			t.Fatalf("%q, %d alive", fileText(s, "runs"), n)
		}
	})
}

func TestRemoveWhileSomebodyWaits(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		w := start(t, s, "l1", "exec sleep 3131")
		done := make(chan error, 1)
		go func() {
			_, err := w.Wait(testContext(t))
			done <- err
		}()
		if err := s.Remove(testContext(t), false); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil && !providers.Is(err, providers.NotFound) {
			t.Fatal(err)
		}
		if _, err := s.Launch(testContext(t), "l2", script("true")); !providers.Is(err, providers.NotFound) {
			t.Fatalf("%v", err)
		}
	})
}
