package local

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
)

// lockSlot holds the slot for one Create or Remove, against other goroutines
// and other programs alike, so that two generations never get one workspace.
// Slots do not wait for each other. The kernel lets go when its holder dies.
func (p *Provider) lockSlot(ctx context.Context, op, key string) (unlock func(), err error) {
	name := workspacesDir + "/" + key + lockSuffix
	wait := time.Millisecond
	for {
		file, err := openRegular(p.root, name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, fileError(op, err)
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		// Whoever discards the workspace deletes the lock with it: then what
		// we hold has no name any more and holds nothing.
		if err == nil && sameAsNamed(p.root, name, file, isRegular) == nil {
			return func() { file.Close() }, nil
		}
		file.Close()
		if err != nil && err != unix.EWOULDBLOCK && err != unix.EINTR {
			return nil, fileError(op, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
			wait = min(2*wait, 50*time.Millisecond)
		}
	}
}

// lock is lockSlot for a sandbox that exists.
func (s *Sandbox) lock(ctx context.Context, op string) (func(), error) {
	return s.p.lockSlot(ctx, op, slotKey(s.meta.Labels))
}

var _ providers.Sandbox = (*Sandbox)(nil)
