package local

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

func TestMarks(t *testing.T) {
	p := &Provider{dir: "/state/sandboxes"}
	other := &Provider{dir: "/other/sandboxes"}
	known := &Sandbox{p: p, last: &launched{LaunchID: "l1"}}
	for _, c := range []struct {
		marker, name string
		s            *Sandbox
		want         bool
	}{
		{"web-x-1-g1-1", "web-x-1-g1", nil, true},
		{"web-x-1-g1-207", "web-x-1-g1", nil, true},
		{"web-x-1-g11-1", "web-x-1-g1", nil, false},
		{"web-x-1-g1", "web-x-1-g1", nil, false},
		{"web-x-1-g1-", "web-x-1-g1", nil, false},
		{"a-1-g1-5", "a-1", nil, false},
		{"a-1-g1-5", "a-1-g1", nil, true},
		{"l1", "web-x-1-g1", nil, false},
		{"l1", "web-x-1-g1", known, true},
		{"l11", "web-x-1-g1", known, false},
		{"", "web-x-1-g1", &Sandbox{p: p, last: &launched{}}, false},
		{p.execMark("web-x-1-g1"), "web-x-1-g1", nil, true},
		{p.execMark("web-x-1-g11"), "web-x-1-g1", nil, false},
		{other.execMark("web-x-1-g1"), "web-x-1-g1", nil, false},
	} {
		if got := (remains{p: p, name: c.name, s: c.s}).marks(c.marker); got != c.want {
			t.Errorf("%q is %s's: %v", c.marker, c.name, got)
		}
	}
}

// TestNotFoundMeansGone deletes a sandbox's folder behind the provider's back:
// whoever hears NotFound starts the next life of the same identity.
func TestNotFoundMeansGone(t *testing.T) {
	again := func(t *testing.T, p *Provider) *Provider { return open(t, p.dir, p.isolation.Mode) }
	for name, ask := range map[string]func(t *testing.T, p *Provider, s *Sandbox) error{
		"info": func(t *testing.T, p *Provider, s *Sandbox) error {
			_, err := s.Info(testContext(t))
			return err
		},
		"open": func(t *testing.T, p *Provider, s *Sandbox) error {
			_, err := p.Open(testContext(t), s.meta.Name)
			return err
		},
		"open by the next supervisor": func(t *testing.T, p *Provider, s *Sandbox) error {
			_, err := again(t, p).Open(testContext(t), s.meta.Name)
			return err
		},
		"remove": func(t *testing.T, p *Provider, s *Sandbox) error {
			if err := s.Remove(testContext(t), true); err != nil {
				return err
			}
			return providers.Errorf(providers.NotFound, "remove", "removed")
		},
		"removal of the workspace by the next supervisor": func(t *testing.T, p *Provider, s *Sandbox) error {
			kept, err := again(t, p).Open(testContext(t), workspaceID+slotKey(s.meta.Labels))
			if err == nil {
				err = kept.Remove(testContext(t), false)
			}
			if err != nil {
				return err
			}
			return providers.Errorf(providers.NotFound, "remove", "removed")
		},
		"creation of the next generation by the next supervisor": func(t *testing.T, p *Provider, s *Sandbox) error {
			create(t, again(t, p), spec(0, 2))
			return providers.Errorf(providers.NotFound, "create", "created")
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p *Provider) {
				s := create(t, p, spec(0, 1))
				alike := spec(1, 1)
				alike.Name = s.meta.Name + "1" // g11
				start(t, create(t, p, alike), alike.Name+"-1", "exec sleep 2020")
				w := start(t, s, s.meta.Name+"-1", `trap "" TERM; setsid sleep 2021 & (sleep 2021 &); sleep 2021; sleep 2021`)
				t.Cleanup(func() { // if what is tested did not
					hunt{find: s.tree(w.l, true), uid: p.uid, sig: unix.SIGKILL}.run(context.Background())
				})
				eventually(t, "all are up", func() bool { return sleepers(t, "2021") == 3 && sleepers(t, "2020") == 1 })
				if err := os.RemoveAll(p.dir + "/" + s.meta.Name); err != nil {
					t.Fatal(err)
				}
				if err := ask(t, p, s); !providers.Is(err, providers.NotFound) {
					t.Errorf("%v", err)
				}
				if n := sleepers(t, "2021"); n != 0 || aliveNow(w.l.worker()) || aliveNow(w.l.keeper()) {
					t.Errorf("it is not gone: %d sleep, worker %v, keeper %v", n, aliveNow(w.l.worker()), aliveNow(w.l.keeper()))
				}
				if members := p.groups.members(s.group()); members != nil {
					t.Errorf("its cgroup has %v", members)
				}
				if sleepers(t, "2020") != 1 {
					t.Error("another sandbox's worker was ended")
				}
			})
		})
	}
}

// TestAGoneSandboxSparesItsNamesake: another pool's state may hold a sandbox
// of the same name, with the same launch ids.
func TestAGoneSandboxSparesItsNamesake(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		elsewhere := open(t, filepath.Join(t.TempDir(), "sandboxes"), p.isolation.Mode)
		t.Cleanup(func() { removeAll(t, elsewhere) })
		s := create(t, elsewhere, spec(0, 1))
		start(t, s, s.meta.Name+"-1", "exec sleep 2022")
		eventually(t, "it is up", func() bool { return sleepers(t, "2022") == 1 })
		if _, err := p.Open(testContext(t), s.meta.Name); !providers.Is(err, providers.NotFound) {
			t.Fatal(err)
		}
		if sleepers(t, "2022") != 1 {
			t.Fatal("it was ended")
		}
	})
}

// TestNotFoundIsNotSaidTooEarly: while something lives at every look, the
// sandbox is not gone.
func TestNotFoundIsNotSaidTooEarly(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "sandboxes"), "none")
	name := spec(0, 1).Name
	var all []*exec.Cmd
	another := func() bool {
		cmd := exec.Command("sleep", "2023")
		cmd.Env = append(os.Environ(), launch.Marker+"="+name+"-1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
		return true
	}
	another()
	err := remains{p: p, name: name}.end(testContext(t), "look", another)
	if !providers.Is(err, providers.Transient) || !strings.Contains(err.Error(), "sleep") {
		t.Errorf("while one always lives: %v", err)
	}
	if _, err := p.Open(testContext(t), name); !providers.Is(err, providers.NotFound) {
		t.Errorf("and later: %v", err)
	}
	if n := sleepers(t, "2023"); len(all) < 10 || n != 0 {
		t.Errorf("%d were started, %d live", len(all), n)
	}
	killSleepers(t, "2023")
	for _, cmd := range all {
		cmd.Wait()
	}
}

// TestRemoveEndsWhatAnExecLeft: the supervisor that ran it is dead, here
// another provider that nobody cancels.
func TestRemoveEndsWhatAnExecLeft(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s, beside := create(t, p, spec(0, 1)), create(t, p, spec(1, 1))
		ctx, cancel := context.WithCancel(testContext(t))
		ended, other := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			s.Exec(ctx, script("trap '' TERM HUP; setsid sleep 2024 & sleep 2024; sleep 2024"))
		}()
		go func() {
			defer close(other)
			beside.Exec(ctx, script("exec sleep 2025"))
		}()
		defer func() { cancel(); <-ended; <-other }()
		eventually(t, "both run", func() bool { return sleepers(t, "2024") == 2 && sleepers(t, "2025") == 1 })
		next := open(t, p.dir, p.isolation.Mode)
		found, err := next.Open(testContext(t), s.meta.Name)
		if err != nil {
			t.Fatal(err)
		}
		if sleepers(t, "2024") != 2 {
			t.Error("opening it ended a command")
		}
		if err := found.Remove(testContext(t), true); err != nil {
			t.Fatal(err)
		}
		if n := sleepers(t, "2024"); n != 0 {
			t.Errorf("%d live on", n)
		}
		if sleepers(t, "2025") != 1 {
			t.Error("another sandbox's command was ended")
		}
	})
}

// TestATerminalsShellEndsAsItSays: a shell with job control gives the terminal
// back to whom it had it from, and its code is lost where it cannot.
func TestATerminalsShellEndsAsItSays(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		for _, shell := range [][]string{{"dash", "-i"}, {"bash", "--norc", "-i"}, {"sh"}} {
			if lookPath(shell[0]) == "" {
				continue
			}
			in, keys := io.Pipe()
			shown := &screen{}
			done := make(chan providers.Exit, 1)
			go func() {
				exit, err := s.Exec(testContext(t), providers.Cmd{Args: shell, TTY: true, Stdin: in, Stdout: shown,
					Size: providers.Size{Rows: 24, Cols: 80}, Env: map[string]string{"TERM": "dumb", "PS1": "> "}})
				if err != nil {
					t.Error(err)
				}
				done <- exit
			}()
			io.WriteString(keys, "echo be''gun; sleep 2026\n")
			eventually(t, "the shell runs", func() bool { return strings.Contains(shown.text(), "begun") })
			eventually(t, "the job runs", func() bool { return sleepers(t, "2026") == 1 })
			io.WriteString(keys, "\x03")
			eventually(t, "Ctrl-C ends the job", func() bool { return sleepers(t, "2026") == 0 })
			io.WriteString(keys, "echo code=$?.; exit 7\n")
			exit := <-done
			keys.Close()
			if exit.Code != 7 || !strings.Contains(shown.text(), "code=130.") {
				t.Errorf("%q: %+v %q", shell, exit, shown.text())
			}
			for _, complaint := range []string{"job control", "process group", "setsid"} {
				if strings.Contains(shown.text(), complaint) {
					t.Errorf("%q says %q", shell, shown.text())
				}
			}
		}
		for text, want := range map[string]providers.Exit{"exit 255": {Code: 255}, "kill -9 $$": {Code: 137, Signal: 9}} {
			c := script(text)
			c.TTY, c.Stdout = true, &bytes.Buffer{}
			exit, err := s.Exec(testContext(t), c)
			// Bubblewrap tells a code alone; see fromShell.
			if err != nil || exit.Code != want.Code || want.Signal != 0 && exit.Signal != want.Signal {
				t.Errorf("%q: %+v %v", text, exit, err)
			}
		}
	})
}

// screen is what a terminal showed so far.
type screen struct {
	mu   sync.Mutex
	seen bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.Write(b)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}
