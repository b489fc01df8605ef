package launch

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/outpostpool/pool/providers"
)

// process is one launched worker, by what worker.pid said of it.
type process struct {
	d   *Driver
	rec PID
}

var (
	_ providers.Process   = (*process)(nil)
	_ providers.Discarder = (*process)(nil)
	_ providers.Backlog   = (*process)(nil)
	_ providers.Epocher   = (*Driver)(nil)
)

func (p *process) op(verb string) string { return verb + " worker " + p.rec.LaunchID }

func (p *process) Info(context.Context) (providers.ProcInfo, error) {
	return providers.ProcInfo{LaunchID: p.rec.LaunchID, PID: p.rec.Worker.PID, Started: p.rec.Started}, nil
}

// Wait looks again after each pause of Options.Poll.
func (p *process) Wait(ctx context.Context) (providers.Exit, error) {
	for {
		exit, ended, err := p.ended(ctx)
		if err != nil {
			return providers.Exit{}, err
		}
		if ended {
			exit.Leftovers, err = p.leftovers(ctx)
			return exit, err
		}
		if err := p.d.opts.Sleep(ctx, p.d.opts.Poll); err != nil {
			return providers.Exit{}, classed(p.op("wait for"), err)
		}
	}
}

// ended tells whether the worker has ended, and how.
func (p *process) ended(ctx context.Context) (providers.Exit, bool, error) {
	out, err := p.d.run(ctx, p.op("look at"), treeScript, "status",
		strconv.Itoa(p.rec.Worker.PID), p.rec.Worker.Start, p.rec.Boot,
		strconv.Itoa(p.rec.Keeper.PID), p.rec.Keeper.Start, p.d.host.RunDir())
	if err != nil {
		return providers.Exit{}, false, err
	}
	living, file, ok := strings.Cut(string(out), "exit\n")
	if !ok {
		return providers.Exit{}, false, providers.Errorf(providers.Unknown, p.op("look at"), "the answer was cut off")
	}
	return verdict(p.rec, strings.Contains(living, "worker"), strings.Contains(living, "keeper"), file, p.d.opts.Now)
}

// leftovers says what of the tree outlived the worker.
func (p *process) leftovers(ctx context.Context) (string, error) {
	out, err := p.d.run(ctx, p.op("look for what is left of"), treeScript, p.treeArgs("members")...)
	if err != nil {
		return "", err
	}
	pids := strings.Fields(string(out))
	if len(pids) == 0 {
		return "", nil
	}
	return "processes " + strings.Join(pids, ", ") + " of its tree still live", nil
}

func (p *process) treeArgs(act string) []string {
	return []string{act, p.rec.LaunchID, strconv.Itoa(p.rec.Worker.PID), p.rec.Worker.Start, p.rec.Boot,
		strconv.Itoa(p.rec.Keeper.PID)}
}

// Signal reaches the worker's session, its group, all descendants, and
// whatever bears its marker; never the keeper. It looks until none is missed.
func (p *process) Signal(ctx context.Context, sig providers.Signal) error {
	op := p.op("send " + string(sig) + " to")
	if _, ok := SignalNumber(sig); !ok {
		return providers.Errorf(providers.Invalid, op, "no such signal")
	}
	out, exit, err := p.d.sh(ctx, nil, treeScript, p.treeArgs(string(sig))...)
	switch {
	case err != nil:
		return classed(op, err)
	case exit.Code == 9:
		return providers.Errorf(providers.Transient, op, "processes %s do not follow", strings.TrimSpace(string(out)))
	case exit.Code != 0:
		return providers.Errorf(providers.Transient, op, "a helper in the sandbox failed with code %d: %s", exit.Code, exit.complaint)
	}
	return nil
}

// OutputSize is providers.Backlog.
func (p *process) OutputSize(ctx context.Context) (int64, error) {
	op := p.op("measure the output of")
	out, err := p.d.run(ctx, op, `wc -c <"$1"`, p.logFile())
	if err != nil {
		return 0, err
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil || size < 0 {
		return 0, providers.Errorf(providers.Unknown, op, "unclear answer %.40q", out)
	}
	return size, nil
}

// Discard is providers.Discarder. Where the sandbox has no fallocate that
// punches holes (BusyBox has none) it is class Invalid.
func (p *process) Discard(ctx context.Context, offset int64) error {
	op := p.op("discard output of")
	if offset <= 0 {
		return nil
	}
	_, exit, err := p.d.sh(ctx, nil, `fallocate -p -o 0 -l "$2" "$1"`, p.logFile(), strconv.FormatInt(offset, 10))
	switch {
	case err != nil:
		return classed(op, err)
	case exit.Code != 0:
		return providers.Errorf(providers.Invalid, op, "no holes can be punched in this sandbox: %s", exit.complaint)
	}
	return nil
}

// Output is Process.Output. The output of a worker is gone once another was
// launched; reading on is then class NotFound.
func (p *process) Output(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if offset < 0 {
		return nil, providers.Errorf(providers.Invalid, p.op("read output of"), "offset %d is negative", offset)
	}
	ctx, cancel := context.WithCancel(ctx)
	return &reader{p: p, ctx: ctx, cancel: cancel, offset: offset}, nil
}

func (p *process) logFile() string { return p.d.host.RunDir() + "/" + LogFile }
