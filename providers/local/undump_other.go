//go:build !linux

package local

import "golang.org/x/sys/unix"

// openNonblock keeps the opening of a pipe that a session planted from waiting
// for its other end.
const openNonblock = unix.O_NONBLOCK

// Undump does nothing where the system has no such thing.
func Undump() error { return nil }

// closeOnExec marks the descriptors that a program may have inherited.
func closeOnExec() {
	const most = 256
	for fd := 3; fd < most; fd++ {
		unix.CloseOnExec(fd)
	}
}
