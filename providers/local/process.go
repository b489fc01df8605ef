package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// Process is a launched worker.
type Process struct {
	s *Sandbox
	l *launched
}

// Process returns the last launched since this machine booted.
func (s *Sandbox) Process(ctx context.Context) (providers.Process, error) {
	if err := s.check(ctx, "find a process in"); err != nil {
		return nil, err
	}
	l, err := s.current()
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, providers.Errorf(providers.NotFound, "find a process in "+s.meta.Name, "nothing was launched since the machine booted")
	}
	return &Process{s: s, l: l}, nil
}

// Info tells which process it is; PID is the host's.
func (p *Process) Info(ctx context.Context) (providers.ProcInfo, error) {
	if err := p.s.check(ctx, "look at a process in"); err != nil {
		return providers.ProcInfo{}, err
	}
	return providers.ProcInfo{LaunchID: p.l.LaunchID, PID: p.l.Worker.PID, Started: p.l.Started}, nil
}

// ended tells whether and how the process ended. The exit in the file counts
// only once the worker is dead, since without walls a session can write it.
func (p *Process) ended() (exit providers.Exit, ended bool, err error) {
	if aliveNow(p.l.worker()) {
		return providers.Exit{}, false, nil
	}
	keeper := aliveNow(p.l.keeper())
	// The keeper may have written it between two of our looks: look at the
	// keeper first, at its file second.
	data, err := readSmall(p.s.run, launch.ExitFile)
	if err == nil {
		if file, err := launch.ParseExit(data); err == nil && file.LaunchID == p.l.LaunchID {
			exit := file.Result()
			exit.OOM = p.s.p.groups.oomKills(p.s.group()) > p.l.OOMKills
			return exit, true, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errLink) {
		return providers.Exit{}, false, fileError("read how "+p.s.meta.Name+" ended", err)
	}
	if keeper {
		return providers.Exit{}, false, nil
	}
	p.s.p.reap(p.l)
	return providers.Exit{At: p.lost(), OOM: p.s.p.groups.oomKills(p.s.group()) > p.l.OOMKills}, true, nil
}

// lost is when we first saw that the process is gone without a code; it is
// kept, so that the same end never has two times.
func (p *Process) lost() time.Time {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.l.Lost.IsZero() {
		p.l.Lost = time.Now().UTC()
		if p.s.last == p.l {
			writeJSON(p.s.dir, launchFile, p.l) // without it only the time is less exact
		}
	}
	return p.l.Lost
}

// Wait returns how the process ended. Leftovers names what still carries its
// marker, or is otherwise known to be of its tree.
func (p *Process) Wait(ctx context.Context) (providers.Exit, error) {
	exit, err := p.wait(ctx)
	if err == nil {
		exit.Leftovers = p.leftovers(ctx)
	}
	return exit, err
}

func (p *Process) wait(ctx context.Context) (providers.Exit, error) {
	for {
		if err := ctx.Err(); err != nil {
			return providers.Exit{}, err
		}
		exit, ended, err := p.ended()
		if err != nil {
			return providers.Exit{}, err
		}
		if ended {
			p.s.p.reap(p.l)
			return exit, nil
		}
		if err := p.s.check(ctx, "wait for the worker of"); providers.Is(err, providers.NotFound) {
			return providers.Exit{}, err
		}
		who := p.l.keeper()
		if !aliveNow(who) {
			who = p.l.worker()
		}
		if err := p.s.p.waitEnd(ctx, who); err != nil {
			return providers.Exit{}, err
		}
	}
}

// leftovers looks a few times, since a killed tree takes a moment to go.
func (p *Process) leftovers(ctx context.Context) string {
	var left []proc
	for range 5 {
		t, err := readTable()
		if err != nil {
			return ""
		}
		if left = p.s.tree(p.l, true)(t); len(left) == 0 {
			return ""
		}
		select {
		case <-ctx.Done():
			return describe(left)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return describe(left)
}

// Signal reaches the whole tree; with walls not bubblewrap's own processes,
// save for KILL.
func (p *Process) Signal(ctx context.Context, sig providers.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.s.signal(ctx, p.l, sig)
}

// OutputSize is the length of the output in bytes.
func (p *Process) OutputSize(ctx context.Context) (int64, error) {
	op := "measure the output of " + p.s.meta.Name
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	file, err := openRegular(p.s.run, launch.LogFile, os.O_RDONLY)
	if err != nil {
		return 0, fileError(op, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, fileError(op, err)
	}
	return info.Size(), nil
}

// Discard gives the disk space of output below offset back. Where the file
// system cannot, nothing happens and that is no error: the file goes with the
// next launch.
func (p *Process) Discard(ctx context.Context, offset int64) error {
	op := "discard output of " + p.s.meta.Name
	if err := ctx.Err(); err != nil {
		return err
	}
	if offset <= 0 {
		return nil
	}
	file, err := openRegular(p.s.run, launch.LogFile, os.O_WRONLY)
	if err != nil {
		return fileError(op, err)
	}
	defer file.Close()
	return fileError(op, punchHole(file, offset))
}
