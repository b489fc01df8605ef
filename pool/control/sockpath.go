package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath is what fits into sockaddr_un everywhere: 104 bytes with the
// final zero on macOS and the BSDs, 108 on Linux.
const maxSocketPath = 103

// bind listens on a socket at path, however long the path is.
func bind(path string) (*net.UnixListener, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The path will have moved by then, and is the caller's to remove.
	l.SetUnlinkOnClose(false)
	return l, nil
}

// dial connects to the socket at path, however long the path is.
func dial(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", short)
}

// shorten returns a path to the same socket that fits into an address, through
// a symbolic link to its folder where the path itself is too long. done
// removes the link; a bound or connected socket no longer needs it.
func shorten(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	if _, err := os.Stat(folder); err != nil {
		return "", nil, err
	}
	for _, base := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(base, "pool")
		if err != nil {
			continue
		}
		link := filepath.Join(dir, "d")
		short = filepath.Join(link, filepath.Base(path))
		if len(short) <= maxSocketPath && os.Symlink(folder, link) == nil {
			return short, func() { os.RemoveAll(dir) }, nil
		}
		os.RemoveAll(dir)
	}
	return "", nil, fmt.Errorf("the path has %d bytes, a socket's may have %d, and no link to it could be made in %s or /tmp; choose a shorter state folder", len(path), maxSocketPath, os.TempDir())
}
