package local

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
)

// endOfInput is what a terminal takes for the end of its input.
var endOfInput = []byte{4}

// startOnTerminal starts a command on a terminal of its own. The terminal is
// the command's controlling one, unless the command takes it itself.
func startOnTerminal(cmd *exec.Cmd, c providers.Cmd, takes bool) (*streams, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	if c.Size != (providers.Size{}) {
		if err := pty.Setsize(master, &pty.Winsize{Rows: c.Size.Rows, Cols: c.Size.Cols}); err != nil {
			master.Close()
			return nil, err
		}
	}
	// Opening it has made it blocking, which would cost a thread and could
	// not be interrupted.
	master, err = pollable(master)
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: !takes}
	s := newStreams()
	to := target(c.Stdout)
	if to == nil {
		to = target(discard{})
	}
	s.take(master, to)
	if c.Stdin != nil {
		s.give(keepOpen{master}, c.Stdin, endOfInput)
	}
	if err := cmd.Start(); err != nil {
		s.close()
		return nil, err
	}
	if c.Resize != nil {
		go s.resize(master, c.Resize)
	}
	s.run()
	return s, nil
}

// resize passes sizes on until the command has ended.
func (s *streams) resize(master *os.File, sizes <-chan providers.Size) {
	for {
		select {
		case <-s.over():
			return
		case size, open := <-sizes:
			if !open {
				return
			}
			raw, err := master.SyscallConn()
			if err != nil {
				return
			}
			raw.Control(func(fd uintptr) {
				unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
			})
		}
	}
}

// pollable gives the same open file to the runtime's poller.
func pollable(file *os.File) (*os.File, error) {
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// keepOpen is a terminal's master as the way in: closing that must not close
// the way out.
type keepOpen struct{ *os.File }

func (keepOpen) Close() error { return nil }

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
