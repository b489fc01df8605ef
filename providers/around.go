package providers

import (
	"context"
	"io"
)

// repeat says when a call may be made again after an error.
type repeat int

const (
	repeatAlways repeat = iota // the contract makes it idempotent: even when it may have happened
	repeatUndone               // only when it surely did not happen
	repeatNever                // it has used up its input
)

// call describes one call of the contract to a wrapper.
type call struct {
	op     string // "create", "signal TERM"
	name   string // of the sandbox, its id where only that is known, or the pool
	repeat repeat
	long   bool // lasts as long as something in the sandbox lasts
}

// around is one concern wrapped round every call: it runs do, once or more.
type around func(ctx context.Context, c call, do func() error) error

// aroundProvider, aroundSandbox and aroundProcess put one concern round the
// whole contract, so that a wrapper is one function.
type aroundProvider struct {
	Provider
	around around
}

type aroundSandbox struct {
	Sandbox
	around around
	name   string
}

type aroundProcess struct {
	Process
	around around
	name   string
}

// through runs a call that has a result.
func through[T any](ctx context.Context, a around, c call, do func() (T, error)) (T, error) {
	var result T
	err := a(ctx, c, func() (err error) {
		result, err = do()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return result, nil
}

func (p *aroundProvider) Unwrap() Provider { return p.Provider }

func (p *aroundProvider) Create(ctx context.Context, s Spec) (Sandbox, error) {
	return p.sandbox(ctx, call{op: "create", name: s.Name}, func() (Sandbox, error) {
		return p.Provider.Create(ctx, s)
	})
}

func (p *aroundProvider) Open(ctx context.Context, id string) (Sandbox, error) {
	return p.sandbox(ctx, call{op: "open", name: id}, func() (Sandbox, error) {
		return p.Provider.Open(ctx, id)
	})
}

func (p *aroundProvider) sandbox(ctx context.Context, c call, do func() (Sandbox, error)) (Sandbox, error) {
	sandbox, err := through(ctx, p.around, c, do)
	if err != nil {
		return nil, err
	}
	return &aroundSandbox{sandbox, p.around, c.name}, nil
}

func (p *aroundProvider) List(ctx context.Context, pool string) ([]Info, error) {
	return through(ctx, p.around, call{op: "list", name: pool}, func() ([]Info, error) {
		return p.Provider.List(ctx, pool)
	})
}

// Check has no error to act on, and its findings are for people: it is passed
// on as it is.

func (s *aroundSandbox) Unwrap() Sandbox { return s.Sandbox }

func (s *aroundSandbox) Info(ctx context.Context) (Info, error) {
	return through(ctx, s.around, call{op: "info", name: s.name}, func() (Info, error) {
		return s.Sandbox.Info(ctx)
	})
}

func (s *aroundSandbox) Exec(ctx context.Context, c Cmd) (Exit, error) {
	again := repeatUndone
	if c.Stdin != nil || c.Resize != nil {
		again = repeatNever
	}
	return through(ctx, s.around, call{op: "exec", name: s.name, repeat: again, long: true}, func() (Exit, error) {
		return s.Sandbox.Exec(ctx, c)
	})
}

func (s *aroundSandbox) Launch(ctx context.Context, launchID string, c Cmd) (Process, error) {
	return s.process(ctx, call{op: "launch", name: s.name}, func() (Process, error) {
		return s.Sandbox.Launch(ctx, launchID, c)
	})
}

func (s *aroundSandbox) Process(ctx context.Context) (Process, error) {
	return s.process(ctx, call{op: "process", name: s.name}, func() (Process, error) {
		return s.Sandbox.Process(ctx)
	})
}

func (s *aroundSandbox) process(ctx context.Context, c call, do func() (Process, error)) (Process, error) {
	process, err := through(ctx, s.around, c, do)
	if err != nil {
		return nil, err
	}
	return &aroundProcess{process, s.around, s.name}, nil
}

func (s *aroundSandbox) Remove(ctx context.Context, keepWorkspace bool) error {
	return s.around(ctx, call{op: "remove", name: s.name}, func() error {
		return s.Sandbox.Remove(ctx, keepWorkspace)
	})
}

func (p *aroundProcess) Unwrap() Process { return p.Process }

func (p *aroundProcess) Info(ctx context.Context) (ProcInfo, error) {
	return through(ctx, p.around, call{op: "process info", name: p.name}, func() (ProcInfo, error) {
		return p.Process.Info(ctx)
	})
}

func (p *aroundProcess) Wait(ctx context.Context) (Exit, error) {
	return through(ctx, p.around, call{op: "wait", name: p.name, long: true}, func() (Exit, error) {
		return p.Process.Wait(ctx)
	})
}

// Signal may be repeated freely but for TERM: programs take a second one for
// "now", so a lost answer is left to the caller.
func (p *aroundProcess) Signal(ctx context.Context, sig Signal) error {
	again := repeatAlways
	if sig == TERM {
		again = repeatUndone
	}
	return p.around(ctx, call{op: "signal " + string(sig), name: p.name, repeat: again}, func() error {
		return p.Process.Signal(ctx, sig)
	})
}

// Output wraps the opening; what breaks later is the reader's error, since
// only the caller knows how far it got.
func (p *aroundProcess) Output(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return through(ctx, p.around, call{op: "output", name: p.name}, func() (io.ReadCloser, error) {
		return p.Process.Output(ctx, offset)
	})
}
