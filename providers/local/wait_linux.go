package local

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// waitEnd returns when this very process has ended, or ctx has. It costs a
// parked goroutine and a descriptor, no thread: the runtime polls the pidfd
// beside its sockets.
func (p *Provider) waitEnd(ctx context.Context, who id) error {
	if who.pid <= 0 {
		return ctx.Err()
	}
	fd, err := unix.PidfdOpen(who.pid, unix.O_NONBLOCK)
	if err == unix.EINVAL { // before Linux 5.10 the flag is unknown
		if fd, err = unix.PidfdOpen(who.pid, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	switch err {
	case nil:
	case unix.ESRCH:
		return ctx.Err()
	default:
		return pollEnd(ctx, who)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	if now, ok := readProc(who.pid); !ok || now.zombie || (who.start != 0 && now.start != who.start) {
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := file.SyscallConn()
	if err != nil {
		return pollEnd(ctx, who)
	}
	err = raw.Read(func(fd uintptr) bool {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(polled, 0)
		return n > 0 || (err != nil && err != unix.EINTR)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return pollEnd(ctx, who)
	}
	return nil
}
