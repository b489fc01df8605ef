package control

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID asks the kernel which user is at the other end.
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Xucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		cred, asked = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return -1, err
	}
	if asked != nil {
		return -1, asked
	}
	return int(cred.Uid), nil
}
