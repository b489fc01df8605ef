package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// SocketName is the control socket's name in a pool's state folder.
const SocketName = "pool.sock"

// answerTime bounds the look whether somebody answers on a socket we found.
const answerTime = time.Second

// ErrInUse says that a supervisor answers on the socket already.
var ErrInUse = errors.New("a supervisor answers on this socket already")

// Listen opens the control socket at path, mode 0600. A socket on which
// nobody answers is what a crash left behind and is replaced; one on which
// somebody answers is ErrInUse; anything else at path is refused, as it is not
// ours to remove. Only connections of this user and of root are accepted.
//
// The socket is bound in a new folder of mode 0700 and moved to its place
// once its own mode is set, so that there is no moment in which others could
// connect, and a reader never finds a path without a listener behind it.
func Listen(path string) (net.Listener, error) {
	if err := clearTheWay(path); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".sock-")
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	defer os.RemoveAll(folder)
	bound := filepath.Join(folder, "s")
	inner, err := bind(bound)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	info, err := settle(bound, path)
	if err != nil {
		inner.Close()
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	return &listener{UnixListener: inner, path: path, file: info}, nil
}

// settle gives the bound socket its mode and its place.
func settle(bound, path string) (fs.FileInfo, error) {
	if err := os.Chmod(bound, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(bound, path); err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

// clearTheWay returns nil when nothing is at path, or a stale socket of ours.
func clearTheWay(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("control socket %s: the path is %s, not a socket; move it away or choose another state folder", path, kindOf(info))
	}
	if uid := ownerOf(info); uid != os.Geteuid() {
		return fmt.Errorf("control socket %s belongs to user id %d, not to you (%d); choose another state folder", path, uid, os.Geteuid())
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	conn, err := dial(ctx, path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("control socket %s: %w", path, ErrInUse)
	}
	if !nobodyThere(err) {
		// A full backlog or a slow machine: somebody may well be there.
		return fmt.Errorf("control socket %s: cannot tell whether a supervisor answers: %w", path, err)
	}
	return nil
}

// nobodyThere reports whether err of a dial means that no process listens.
func nobodyThere(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

func kindOf(info fs.FileInfo) string {
	switch {
	case info.Mode().IsDir():
		return "a folder"
	case info.Mode().IsRegular():
		return "a file"
	case info.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	default:
		return "something else"
	}
}

func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// listener accepts only this user and root, and removes its socket at the
// end unless another supervisor has put its own there since.
type listener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
	once sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && mayTalk(uid) {
			return conn, nil
		}
		conn.Close()
	}
}

func mayTalk(uid int) bool { return uid == 0 || uid == os.Geteuid() }

func (l *listener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
			os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}
