package outposttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 30 s: %s", what)
}

// process is a real one. It is ended with the test.
type process struct {
	*exec.Cmd
	out  output
	done chan struct{}
}

func launch(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(self, args...), done: make(chan struct{})}
	p.Dir, p.Env = dir, env
	p.WaitDelay = time.Second // a child left behind keeps the output open
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.Wait() // the state is read from ProcessState
	}()
	t.Cleanup(func() {
		p.Process.Kill()
		<-p.done
	})
	return p
}

// end sends the signal and returns the exit code, -1 when the signal killed.
func (p *process) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	p.Process.Signal(signal)
	select {
	case <-p.done:
		return p.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		t.Fatalf("still there 30 s after %s: %s", signal, &p.out)
		return 0
	}
}

func launchServer(t *testing.T, args ...string) (*process, Remote) {
	t.Helper()
	server := launch(t, t.TempDir(), []string{"TOKENS=" + token}, append([]string{"__outpost", "--outpost", "web:" + platform(), "--token-env", "TOKENS"}, args...)...)
	eventually(t, "the server's first line", func() bool { return strings.Contains(server.out.String(), "\n") })
	url, _, _ := strings.Cut(server.out.String(), "\n")
	return server, Remote{URL: url}
}

func launchWorker(t *testing.T, dir string, remote Remote, acceptor string, habits ...string) *process {
	t.Helper()
	return launch(t, dir, append([]string{
		"HOME=" + filepath.Join(dir, ".home"), "PATH=" + os.Getenv("PATH"), "DEVIN_OUTPOSTS_TOKEN=" + token,
		"DEVIN_API_URL=" + remote.URL, "DEVIN_WORKER_ACCEPTOR_ID=" + acceptor, "POOLTEST_POLL=100ms",
	}, habits...), "__worker", "start", "--outpost=web")
}

func (r Remote) mustState(t *testing.T) State {
	t.Helper()
	state, err := r.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestServerAndWorkersAsProcesses(t *testing.T) {
	server, remote := launchServer(t, "--sessions", "6", "--every", "50ms", "--session-for", "100ms..300ms", "--seed", "5")
	var workers []*process
	for i := range 3 {
		workers = append(workers, launchWorker(t, t.TempDir(), remote, fmt.Sprintf("web-uid-%d", i)))
	}
	eventually(t, "six sessions served", func() bool { return remote.mustState(t).Served == 6 })
	if v := remote.mustState(t).Violations; len(v) != 0 {
		t.Errorf("violations: %v", v)
	}
	for _, p := range append(workers, server) {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Process.Pid)); err == nil && strings.Contains(string(raw), token) {
			t.Errorf("the token is in %s", raw)
		}
		if code := p.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("ended with %d: %s", code, &p.out)
		}
		if strings.Contains(p.out.String(), token) {
			t.Errorf("the token was printed: %s", &p.out)
		}
	}
}

func TestAKilledWorkerIsRestartedAndGoesOn(t *testing.T) {
	_, remote := launchServer(t)
	id, err := remote.AddSession(t.Context(), NewSession{Script: Script{Prompt: `write "42" to outpost-proof.txt`}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	connections := func() (n int) {
		history, err := remote.History(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range history {
			if e.Kind == "connected" && e.Session == id {
				n++
			}
		}
		return n
	}
	first := launchWorker(t, dir, remote, "web-uid-0")
	eventually(t, "the proof", func() bool {
		proof, _ := os.ReadFile(filepath.Join(dir, "outpost-proof.txt"))
		return string(proof) == "42\n"
	})
	first.end(t, syscall.SIGKILL)
	launchWorker(t, dir, remote, "web-uid-0")
	eventually(t, "the same session again", func() bool { return connections() == 2 })
	state := remote.mustState(t)
	if len(state.Violations) != 0 || len(state.Sessions[0].Holders) != 1 || state.Sessions[0].Status != "running" {
		t.Errorf("state: %+v", state)
	}
}

func TestTwoProcessesWithOneIdentityAreCaught(t *testing.T) {
	_, remote := launchServer(t)
	launchWorker(t, t.TempDir(), remote, "web-uid-0")
	launchWorker(t, t.TempDir(), remote, "web-uid-0")
	eventually(t, "the violation", func() bool {
		v := remote.mustState(t).Violations
		return len(v) == 1 && v[0].Kind == TwoLives
	})
}

func TestSignalsAndProcesses(t *testing.T) {
	_, remote := launchServer(t)
	ready := func(p *process) {
		t.Helper()
		eventually(t, "a waiting worker", func() bool { return strings.Contains(p.out.String(), "waiting for sessions") })
	}
	t.Run("INT ends with 0", func(t *testing.T) {
		p := launchWorker(t, t.TempDir(), remote, "int")
		ready(p)
		if code := p.end(t, syscall.SIGINT); code != 0 {
			t.Errorf("code %d", code)
		}
	})
	t.Run("a slow stop ends with 0", func(t *testing.T) {
		p := launchWorker(t, t.TempDir(), remote, "slow", "POOLTEST_STOP_TAKES=300ms")
		ready(p)
		began := time.Now()
		if code := p.end(t, syscall.SIGTERM); code != 0 || time.Since(began) < 300*time.Millisecond {
			t.Errorf("code %d after %s", code, time.Since(began))
		}
	})
	t.Run("TERM is ignored, KILL is not", func(t *testing.T) {
		p := launchWorker(t, t.TempDir(), remote, "deaf", "POOLTEST_IGNORE_TERM=1", "POOLTEST_PRINT=50")
		ready(p)
		p.Process.Signal(syscall.SIGTERM)
		seen := strings.Count(p.out.String(), "line ")
		eventually(t, "more lines after TERM", func() bool { return strings.Count(p.out.String(), "line ") > seen+5 })
		if code := p.end(t, syscall.SIGKILL); code != -1 {
			t.Errorf("code %d", code)
		}
	})
	t.Run("exit code after a time", func(t *testing.T) {
		p := launchWorker(t, t.TempDir(), remote, "seven", "POOLTEST_EXIT=7", "POOLTEST_EXIT_AFTER=100ms")
		<-p.done
		if code := p.ProcessState.ExitCode(); code != 7 {
			t.Errorf("code %d", code)
		}
	})
	t.Run("a child outlives it in its own session", func(t *testing.T) {
		p := launchWorker(t, t.TempDir(), remote, "parent", "POOLTEST_FORK=60s")
		ready(p)
		found := regexp.MustCompile(`left child (\d+) behind`).FindStringSubmatch(p.out.String())
		if found == nil {
			t.Fatalf("no child: %s", &p.out)
		}
		child, _ := strconv.Atoi(found[1])
		t.Cleanup(func() { syscall.Kill(child, syscall.SIGKILL) })
		p.end(t, syscall.SIGKILL)
		if err := syscall.Kill(child, 0); err != nil {
			t.Errorf("the child died with it: %v", err)
		}
		group, err := syscall.Getpgid(child)
		if err != nil || group != child {
			t.Errorf("the child is in group %d, %v", group, err)
		}
	})
}

func TestServersAskedWrongly(t *testing.T) {
	t.Setenv("NO_TOKENS_HERE", "")
	for name, c := range map[string]struct {
		args []string
		code int
		text string
	}{
		"not loopback":     {[]string{"--listen", "0.0.0.0:0"}, 1, "only loopback"},
		"no address":       {[]string{"--listen", "nowhere"}, 1, "missing port"},
		"no such variable": {[]string{"--token-env", "NO_TOKENS_HERE"}, 2, "NO_TOKENS_HERE is empty"},
		"no range":         {[]string{"--session-for", "6s..3s"}, 2, "is no range"},
		"a nameless one":   {[]string{"--outpost", ":linux"}, 2, "want name:platform"},
		"a stray argument": {[]string{"now"}, 2, `unexpected "now"`},
		"help":             {[]string{"--help"}, 0, "-session-for"},
	} {
		t.Run(name, func(t *testing.T) {
			var out output
			if code := RunServer(t.Context(), c.args, io.Discard, &out); code != c.code || !strings.Contains(out.String(), c.text) {
				t.Errorf("code %d, said %q", code, &out)
			}
		})
	}
}

func TestTheServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- RunServer(ctx, []string{"--sessions", "1000", "--every", "1h"}, write, io.Discard) }()
	url, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	remote := Remote{URL: strings.TrimSpace(url)}
	eventually(t, "the first of the fed sessions", func() bool { return len(remote.mustState(t).Sessions) == 1 })
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("code %d", got)
	}
	if _, err := remote.State(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("it still answers: %v", err)
	}
}
