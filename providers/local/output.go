package local

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// Output reads the worker's log from offset on and follows it. It waits for
// the kernel's word where there is one, else it looks every 100 ms.
func (p *Process) Output(ctx context.Context, offset int64) (io.ReadCloser, error) {
	op := "read the output of " + p.s.meta.Name
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, providers.Errorf(providers.Invalid, op, "offset %d is below 0", offset)
	}
	if l, err := p.s.current(); err == nil && l != nil && l.LaunchID != p.l.LaunchID {
		return nil, providers.Errorf(providers.NotFound, op, "launch %s has begun a log of its own", l.LaunchID)
	}
	file, err := openRegular(p.s.run, launch.LogFile, os.O_RDONLY)
	if err != nil {
		return nil, fileError(op, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	return &follower{p: p, ctx: ctx, cancel: cancel, file: file, at: offset, over: make(chan struct{})}, nil
}

// follower is one reader of one log. It owns a goroutine only from the first
// time it has to wait until it is closed or the process has ended.
type follower struct {
	p      *Process
	ctx    context.Context
	cancel context.CancelFunc
	at     int64
	over   chan struct{} // closed when the process has ended
	once   sync.Once
	ending sync.WaitGroup

	mu   sync.Mutex // guards file against Close
	file *os.File
}

// Read gives what there is, or waits. io.EOF comes only after the process has
// ended and a look after that found nothing more.
func (f *follower) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		over := f.ended()
		n, err := f.read(b)
		if n > 0 || (err != nil && err != io.EOF) {
			return n, err
		}
		if over {
			return 0, io.EOF
		}
		if err := f.wait(); err != nil {
			return 0, err
		}
	}
}

func (f *follower) read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.file.ReadAt(b, f.at)
	f.at += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// ended reports whether the process had ended, and begins to watch for that.
func (f *follower) ended() bool {
	f.once.Do(func() {
		if _, ended, err := f.p.ended(); err == nil && ended {
			close(f.over)
			return
		}
		f.ending.Go(func() {
			for f.ctx.Err() == nil {
				if _, err := f.p.wait(f.ctx); err == nil || providers.Is(err, providers.NotFound) {
					close(f.over)
					return
				}
				select { // an unreadable record passes
				case <-f.ctx.Done():
				case <-time.After(pollEvery):
				}
			}
		})
	})
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// wait returns when the log has grown, the process has ended or ctx has.
func (f *follower) wait() error {
	grown, stop := f.p.s.p.watches.watch(f.file)
	defer stop()
	f.mu.Lock()
	info, err := f.file.Stat() // what came before the watch was set
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if info.Size() > f.at {
		return nil
	}
	var tick <-chan time.Time
	if grown == nil {
		timer := time.NewTimer(pollEvery)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-grown:
	case <-tick:
	case <-f.over:
	}
	return nil
}

// Close ends a Read that waits, and the follower's goroutine.
func (f *follower) Close() error {
	f.cancel()
	f.ending.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
