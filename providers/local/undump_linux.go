package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// openNonblock keeps the opening of a pipe that a session planted from waiting
// for its other end.
const openNonblock = unix.O_NONBLOCK

// Undump makes this program undumpable: no other process of its user can then
// read its environment or memory, nor trace it. The supervisor calls it first
// thing; what it starts is dumpable again after exec.
func Undump() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// closeOnExec keeps descriptors that this program inherited from reaching a
// worker. Go opens all of its own that way.
func closeOnExec() {
	unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
}
