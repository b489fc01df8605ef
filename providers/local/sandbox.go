package local

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Sandbox is a directory with processes. One value serves all who open it.
type Sandbox struct {
	p    *Provider
	meta meta
	dir  *os.Root // of the sandbox, kept
	run  *os.Root // of its run directory, kept

	launching sync.Mutex // one Launch at a time

	mu    sync.Mutex
	last  *launched // what this program knows of the last launch; nil: ask the files
	epoch int64     // of this program's supervisor; 0: the one in force
	cpu   cpuMark
	disk  diskMark
}

// Info tells what the sandbox is; it reads one small file.
func (s *Sandbox) Info(ctx context.Context) (providers.Info, error) {
	if err := s.check(ctx, "look at"); err != nil {
		return providers.Info{}, err
	}
	return s.p.info(s.meta), nil
}

// check refuses when ctx is done or the sandbox is gone, with all of it.
func (s *Sandbox) check(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	gone, err := s.gone()
	if !gone {
		return err
	}
	op := what + " " + s.meta.Name
	if err := s.p.clearGone(ctx, op, s.meta.Name); err != nil {
		return err
	}
	return providers.Errorf(providers.NotFound, op, "the sandbox is gone")
}

// group names the sandbox's cgroup: another pool's, or a former sandbox's, has
// another name even when the sandboxes' names are equal.
func (s *Sandbox) group() string { return s.meta.Name + "." + s.meta.incarnation() }

// cpuMark keeps a worker's consumed time from going back when a process that
// was counted ends.
type cpuMark struct {
	launch string
	spent  time.Duration
}
