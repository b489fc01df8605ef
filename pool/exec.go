package pool

import (
	"context"
	"fmt"
	"maps"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker"
)

// Exec runs a command in a worker's sandbox, in the workspace, with the
// worker's environment minus every secret. It works in every state in which
// the sandbox exists.
func (s *Supervisor) Exec(ctx context.Context, name string, r control.ExecRequest, streams control.ExecStreams) (int, error) {
	num, err := s.resolve(ctx, name)
	if err != nil {
		return 0, err
	}
	var sl plan.Slot
	if err := s.ask(ctx, func() {
		if found := s.slots[num]; found != nil {
			sl = found.Slot
		}
	}); err != nil {
		return 0, err
	}
	if sl.Sandbox == "" {
		return 0, control.Fail(control.CodeConflict, fmt.Sprintf("%s has no sandbox now (%s: %s)", s.name(num), sl.State, sl.Reason), "`pool status` shows when it has one")
	}
	sandbox, err := s.set.Provider.Open(ctx, sl.Sandbox)
	if err != nil {
		return 0, execError(err)
	}
	env, err := s.execEnvironment(ctx, sandbox, sl)
	if err != nil {
		return 0, execError(err)
	}
	if r.TTY {
		env["TERM"] = "xterm-256color"
	}
	maps.Copy(env, r.Env)
	exit, err := sandbox.Exec(ctx, providers.Cmd{
		Args: r.Args, Env: env, Dir: r.Dir,
		Stdin: streams.Stdin, Stdout: streams.Stdout, Stderr: streams.Stderr,
		TTY: r.TTY, Size: providers.Size(r.Size), Resize: sizes(ctx, streams.Resize),
	})
	if err != nil {
		return 0, execError(err)
	}
	if !exit.Known {
		return 0, control.Fail(control.CodeUnavailable, "the command ended, its exit code is lost", "")
	}
	return exit.Code, nil
}

// execEnvironment needs no secret's value: only names decide what goes.
func (s *Supervisor) execEnvironment(ctx context.Context, sandbox providers.Sandbox, sl plan.Slot) (map[string]string, error) {
	info, err := sandbox.Info(ctx)
	if err != nil {
		return nil, err
	}
	w := s.set.Worker
	env := worker.EnvSpec{
		Variables: w.Env, Acceptor: sl.Acceptor, APIURL: s.set.APIURL, Home: info.Home, Path: w.Path,
		Workspace: info.Workspace, CacheDir: info.Cache, ChromePath: w.ChromePath, Display: w.Display, Network: w.Network,
	}
	// A variable that merely holds a secret goes too, where the secret can be
	// read; exec works all the same while it cannot.
	env.Token, _ = s.set.Token(ctx)
	if w.Secrets != nil {
		env.Secrets, _ = w.Secrets(ctx)
	}
	return worker.ExecEnvironment(env), nil
}

// sizes passes terminal sizes on until the source ends or the command does.
func sizes(ctx context.Context, in <-chan control.Size) <-chan providers.Size {
	if in == nil {
		return nil
	}
	out := make(chan providers.Size)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- providers.Size(size):
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

func execError(err error) error {
	switch providers.ClassOf(err) {
	case providers.NotFound:
		return control.Fail(control.CodeNotFound, err.Error(), "")
	case providers.Invalid:
		return control.Fail(control.CodeInvalid, err.Error(), "")
	default:
		return control.Fail(control.CodeUnavailable, err.Error(), "")
	}
}
