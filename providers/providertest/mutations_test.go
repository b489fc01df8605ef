package providertest_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch/launchtest"
	"github.com/outpostpool/pool/providers/providertest"
)

func TestMain(m *testing.M) {
	// A property that fails on purpose is neither shrunk for long nor kept.
	_ = flag.Set("rapid.nofailfile", "true")
	_ = flag.Set("rapid.shrinktime", "1ms")
	os.Exit(m.Run())
}

// mutation breaks one promise; the sub-test named must notice.
type mutation struct {
	name    string
	noticed string
	world   func(w *broken)
}

// broken is a provider whose calls can be bent.
type broken struct {
	providers.Provider
	create func(next providers.Provider, ctx context.Context, s providers.Spec) (providers.Sandbox, error)
	open   func(next providers.Provider, ctx context.Context, id string) (providers.Sandbox, error)
	list   func([]providers.Info) []providers.Info

	exec    func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error)
	launch  func(next providers.Sandbox, ctx context.Context, id string, c providers.Cmd) (providers.Process, error)
	process func(next providers.Sandbox, ctx context.Context) (providers.Process, error)
	remove  func(next providers.Sandbox, ctx context.Context, keep bool) error

	wait   func(providers.Exit, error) (providers.Exit, error)
	signal func(next providers.Process, ctx context.Context, sig providers.Signal) error
	output func(next providers.Process, ctx context.Context, offset int64) (io.ReadCloser, error)
}

func (w *broken) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	if w.create != nil {
		return w.sandbox(w.create(w.Provider, ctx, s))
	}
	return w.sandbox(w.Provider.Create(ctx, s))
}

func (w *broken) Open(ctx context.Context, id string) (providers.Sandbox, error) {
	if w.open != nil {
		return w.sandbox(w.open(w.Provider, ctx, id))
	}
	return w.sandbox(w.Provider.Open(ctx, id))
}

func (w *broken) List(ctx context.Context, pool string) ([]providers.Info, error) {
	infos, err := w.Provider.List(ctx, pool)
	if w.list != nil {
		infos = w.list(infos)
	}
	return infos, err
}

func (w *broken) sandbox(s providers.Sandbox, err error) (providers.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return &brokenSandbox{s, w}, nil
}

type brokenSandbox struct {
	providers.Sandbox
	w *broken
}

func (s *brokenSandbox) Unwrap() providers.Sandbox { return s.Sandbox }

func (s *brokenSandbox) Exec(ctx context.Context, c providers.Cmd) (providers.Exit, error) {
	if s.w.exec != nil {
		return s.w.exec(s.Sandbox, ctx, c)
	}
	return s.Sandbox.Exec(ctx, c)
}

func (s *brokenSandbox) Launch(ctx context.Context, id string, c providers.Cmd) (providers.Process, error) {
	if s.w.launch != nil {
		return s.proc(s.w.launch(s.Sandbox, ctx, id, c))
	}
	return s.proc(s.Sandbox.Launch(ctx, id, c))
}

func (s *brokenSandbox) Process(ctx context.Context) (providers.Process, error) {
	if s.w.process != nil {
		return s.proc(s.w.process(s.Sandbox, ctx))
	}
	return s.proc(s.Sandbox.Process(ctx))
}

func (s *brokenSandbox) Remove(ctx context.Context, keep bool) error {
	if s.w.remove != nil {
		return s.w.remove(s.Sandbox, ctx, keep)
	}
	return s.Sandbox.Remove(ctx, keep)
}

func (s *brokenSandbox) proc(p providers.Process, err error) (providers.Process, error) {
	if err != nil {
		return nil, err
	}
	return &brokenProcess{p, s.w}, nil
}

type brokenProcess struct {
	providers.Process
	w *broken
}

func (p *brokenProcess) Unwrap() providers.Process { return p.Process }

func (p *brokenProcess) Wait(ctx context.Context) (providers.Exit, error) {
	exit, err := p.Process.Wait(ctx)
	if p.w.wait != nil {
		return p.w.wait(exit, err)
	}
	return exit, err
}

func (p *brokenProcess) Signal(ctx context.Context, sig providers.Signal) error {
	if p.w.signal != nil {
		return p.w.signal(p.Process, ctx, sig)
	}
	return p.Process.Signal(ctx, sig)
}

func (p *brokenProcess) Output(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if p.w.output != nil {
		return p.w.output(p.Process, ctx, offset)
	}
	return p.Process.Output(ctx, offset)
}

// bent passes an output through a change.
func bent(change func([]byte) []byte) func(providers.Process, context.Context, int64) (io.ReadCloser, error) {
	return func(next providers.Process, ctx context.Context, offset int64) (io.ReadCloser, error) {
		r, err := next.Output(ctx, offset)
		if err != nil {
			return nil, err
		}
		all, err := io.ReadAll(r)
		return io.NopCloser(bytes.NewReader(change(all))), err
	}
}

var mutations = []mutation{
	{"a second create makes another", "create by the same name", func(w *broken) {
		calls := 0
		w.create = func(next providers.Provider, ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
			calls++
			s.Name += strings.Repeat("x", calls-1)
			return next.Create(ctx, s)
		}
	}},
	{"open of the unknown is unclear", "open of an unknown id", func(w *broken) {
		w.open = func(next providers.Provider, ctx context.Context, id string) (providers.Sandbox, error) {
			return nil, fmt.Errorf("lost")
		}
	}},
	{"list forgets one", "list after a restart", func(w *broken) {
		w.list = func(all []providers.Info) []providers.Info { return all[:max(0, len(all)-1)] }
	}},
	{"list loses a label", "list after a restart", func(w *broken) {
		w.list = func(all []providers.Info) []providers.Info {
			for i := range all {
				all[i].Labels.ConfigHash = ""
			}
			return all
		}
	}},
	{"an exec's exit code is off by one", "exec passes exit codes", func(w *broken) {
		w.exec = func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error) {
			exit, err := next.Exec(ctx, c)
			if exit.Code == 7 {
				exit.Code = 8
			}
			return exit, err
		}
	}},
	{"line ends are translated", "exec carries every byte", func(w *broken) {
		w.exec = func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error) {
			var out bytes.Buffer
			to := c.Stdout
			c.Stdout = &out
			exit, err := next.Exec(ctx, c)
			if to != nil {
				_, _ = to.Write(bytes.ReplaceAll(out.Bytes(), []byte("\n"), []byte("\r\n")))
			}
			return exit, err
		}
	}},
	{"an exec inherits a variable", "exec sets the environment", func(w *broken) {
		w.exec = func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error) {
			return next.Exec(ctx, c.WithEnv("STRAY", "1"))
		}
	}},
	{"the environment travels in argv", "a secret in an exec's environment", func(w *broken) {
		w.exec = func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error) {
			return next.Exec(ctx, withArgv(c))
		}
	}},
	{"a launch's environment travels in argv", "a secret in a launch's environment", func(w *broken) {
		w.launch = func(next providers.Sandbox, ctx context.Context, id string, c providers.Cmd) (providers.Process, error) {
			return next.Launch(ctx, id, withArgv(c))
		}
	}},
	{"resizes are dropped", "a terminal has its size", func(w *broken) {
		w.exec = func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error) {
			c.Resize = nil
			return next.Exec(ctx, c)
		}
	}},
	{"a cancelled exec goes on in the sandbox", "a cancelled exec ends in the sandbox", func(w *broken) {
		w.exec = func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error) {
			done := make(chan struct{})
			var exit providers.Exit
			var err error
			go func() {
				defer close(done)
				exit, err = next.Exec(context.WithoutCancel(ctx), c)
			}()
			select {
			case <-done:
				return exit, err
			case <-ctx.Done():
				// Only so that this test leaves nothing behind.
				_, _ = next.Exec(context.Background(), providers.Cmd{Args: []string{"touch", "left-running"}, Env: c.Env})
				return providers.Exit{}, ctx.Err()
			}
		}
	}},
	{"a lost exec is exit 0", "a cancelled exec ends in the sandbox", func(w *broken) {
		w.exec = func(next providers.Sandbox, ctx context.Context, c providers.Cmd) (providers.Exit, error) {
			exit, err := next.Exec(ctx, c)
			if err != nil {
				return providers.Exit{Known: true}, nil
			}
			return exit, nil
		}
	}},
	{"launch starts twice", "launch by the same id", func(w *broken) {
		calls := 0
		w.launch = func(next providers.Sandbox, ctx context.Context, id string, c providers.Cmd) (providers.Process, error) {
			if calls++; calls > 1 {
				if p, err := next.Process(ctx); err == nil {
					_ = p.Signal(ctx, providers.KILL)
					_, _ = p.Wait(ctx)
				}
				id += fmt.Sprint(calls)
			}
			return next.Launch(ctx, id, c)
		}
	}},
	{"a conflict stops the other", "launch by another id is a conflict", func(w *broken) {
		w.launch = func(next providers.Sandbox, ctx context.Context, id string, c providers.Cmd) (providers.Process, error) {
			if p, err := next.Process(ctx); err == nil {
				_ = p.Signal(ctx, providers.KILL)
				_, _ = p.Wait(ctx)
			}
			return next.Launch(ctx, id, c)
		}
	}},
	{"a new instance knows no process", "a launched process lives on", func(w *broken) {
		w.process = func(providers.Sandbox, context.Context) (providers.Process, error) {
			return nil, providers.Errorf(providers.NotFound, "process", "forgotten")
		}
	}},
	{"wait loses the code", "wait tells exit codes", func(w *broken) {
		w.wait = func(exit providers.Exit, err error) (providers.Exit, error) {
			return providers.Exit{At: exit.At}, err
		}
	}},
	{"wait calls a signal a code", "wait tells the signal", func(w *broken) {
		w.wait = func(exit providers.Exit, err error) (providers.Exit, error) {
			exit.Signal = 0
			return exit, err
		}
	}},
	{"a cancelled wait says ended", "a cancelled wait", func(w *broken) {
		w.wait = func(exit providers.Exit, _ error) (providers.Exit, error) { return exit, nil }
	}},
	{"output drops a byte", "output is byte-exact", func(w *broken) {
		w.output = bent(func(all []byte) []byte {
			if len(all) > 70_000 {
				return append(all[:65_536:65_536], all[65_537:]...)
			}
			return all
		})
	}},
	{"output starts one byte late", "output is byte-exact", func(w *broken) {
		w.output = func(next providers.Process, ctx context.Context, offset int64) (io.ReadCloser, error) {
			if offset > 0 {
				offset++
			}
			return next.Output(ctx, offset)
		}
	}},
	{"output ends before the process", "output follows", func(w *broken) {
		w.output = func(next providers.Process, ctx context.Context, offset int64) (io.ReadCloser, error) {
			r, err := next.Output(ctx, offset)
			if err != nil {
				return nil, err
			}
			some := make([]byte, 1024)
			n, err := r.Read(some)
			_ = r.Close()
			return io.NopCloser(bytes.NewReader(some[:n])), err
		}
	}},
	{"TERM is KILL", "a worker may answer TERM", func(w *broken) {
		w.signal = func(next providers.Process, ctx context.Context, sig providers.Signal) error {
			if sig == providers.TERM {
				sig = providers.KILL
			}
			return next.Signal(ctx, sig)
		}
	}},
	{"STOP does nothing", "STOP stops", func(w *broken) {
		w.signal = func(next providers.Process, ctx context.Context, sig providers.Signal) error {
			if sig == providers.STOP {
				return nil
			}
			return next.Signal(ctx, sig)
		}
	}},
	{"KILL reaches the worker alone", "KILL reaches the whole tree", func(w *broken) {
		w.signal = func(next providers.Process, ctx context.Context, sig providers.Signal) error {
			info, err := next.Info(ctx)
			if err != nil || sig != providers.KILL {
				return next.Signal(ctx, sig)
			}
			worker, err := os.FindProcess(info.PID)
			if err != nil {
				return err
			}
			return worker.Kill()
		}
	}},
	{"a second removal fails", "removing twice", func(w *broken) {
		calls := 0
		w.remove = func(next providers.Sandbox, ctx context.Context, keep bool) error {
			if calls++; calls > 1 {
				return providers.Errorf(providers.NotFound, "remove", "gone")
			}
			return next.Remove(ctx, keep)
		}
	}},
	{"the workspace is kept unasked", "a workspace that is not kept", func(w *broken) {
		w.remove = func(next providers.Sandbox, ctx context.Context, _ bool) error { return next.Remove(ctx, true) }
	}},
	{"a kept workspace is lost", "a kept workspace", func(w *broken) {
		w.remove = func(next providers.Sandbox, ctx context.Context, _ bool) error { return next.Remove(ctx, false) }
	}},
	{"fresh is not heeded", "fresh ignores", func(w *broken) {
		w.create = func(next providers.Provider, ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
			s.Fresh = false
			return next.Create(ctx, s)
		}
	}},
}

// withArgv puts the environment where a process list shows it.
func withArgv(c providers.Cmd) providers.Cmd {
	args := []string{"env"}
	for name, value := range c.Env {
		args = append(args, name+"="+value)
	}
	c.Args = append(args, c.Args...)
	// env execs in place, so a shell stays in between to be seen.
	c.Args = append([]string{"sh", "-c", `"$@"; exit`, "sh"}, c.Args...)
	return c
}

// The suite passes on the double and notices each broken promise.
func TestSuiteNotices(t *testing.T) {
	path, err := launchtest.ShellPath(t.TempDir(), "dash")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, bend := range []func(*broken){func(*broken) {}, m.world} {
				w := &broken{}
				bend(w)
				r := &recorder{TB: t, only: m.noticed}
				providertest.Check(r, providertest.Factory{
					Path:     path,
					Patience: 8 * time.Second,
					New: func(tt providertest.T) providertest.World {
						dir := t.TempDir()
						tt.Cleanup(func() { endAll(t, &launchtest.Provider{Dir: dir, Path: path}) })
						open := func() providers.Provider {
							again := *w
							again.Provider = &launchtest.Provider{Dir: dir, Path: path}
							return &again
						}
						return providertest.World{Provider: open(), Reopen: open}
					},
				})
				bentNow := w.bent()
				switch {
				case r.ran == 0:
					t.Fatalf("no sub-test begins with %q", m.noticed)
				case !bentNow && r.failed:
					t.Fatalf("%q fails on the honest double: %v", m.noticed, r.said)
				case bentNow && !r.failed:
					t.Errorf("%q did not notice", m.noticed)
				}
			}
		})
	}
}

// endAll ends what a broken provider has left.
func endAll(t *testing.T, p providers.Provider) {
	infos, err := p.List(context.Background(), "suite")
	if err != nil {
		t.Errorf("list what is left: %v", err)
	}
	for _, info := range infos {
		if info.State != providers.Running {
			continue
		}
		s, err := p.Open(context.Background(), info.ID)
		if err == nil {
			err = s.Remove(context.Background(), false)
		}
		if err != nil {
			t.Errorf("remove what is left: %v", err)
		}
	}
}

func (w *broken) bent() bool {
	return w.create != nil || w.open != nil || w.list != nil || w.exec != nil || w.launch != nil ||
		w.process != nil || w.remove != nil || w.wait != nil || w.signal != nil || w.output != nil
}

// recorder takes failures down instead of failing, and runs one sub-test.
type recorder struct {
	testing.TB
	only   string
	ran    int
	failed bool
	said   []string
	after  []func()
}

func (r *recorder) Run(name string, f func(providertest.T)) bool {
	if !strings.HasPrefix(name, r.only) {
		return true
	}
	r.ran++
	sub := &recorder{TB: r.TB, only: r.only}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(sub.after) - 1; i >= 0; i-- {
				sub.after[i]()
			}
		}()
		f(sub)
	}()
	<-done
	r.failed = r.failed || sub.failed
	r.said = append(r.said, sub.said...)
	return !sub.failed
}

func (r *recorder) Cleanup(f func()) { r.after = append(r.after, f) }
func (r *recorder) Failed() bool     { return r.failed }
func (r *recorder) Fail()            { r.failed = true }
func (r *recorder) FailNow()         { r.failed = true; runtime.Goexit() }
func (r *recorder) Error(a ...any)   { r.said = append(r.said, fmt.Sprint(a...)); r.Fail() }
func (r *recorder) Fatal(a ...any)   { r.said = append(r.said, fmt.Sprint(a...)); r.FailNow() }
func (r *recorder) Log(a ...any)     {}
func (r *recorder) Errorf(f string, a ...any) {
	r.said = append(r.said, fmt.Sprintf(f, a...))
	r.Fail()
}
func (r *recorder) Fatalf(f string, a ...any) {
	r.said = append(r.said, fmt.Sprintf(f, a...))
	r.FailNow()
}
func (r *recorder) Logf(string, ...any) {}
