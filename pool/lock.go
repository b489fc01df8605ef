package pool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrRunning says that another supervisor holds the pool's lock.
var ErrRunning = errors.New("a supervisor of this pool is running")

// Lock is held while a supervisor runs, so that a pool has one.
type Lock struct{ file *os.File }

// TakeLock takes the lock of a state folder, or fails with ErrRunning. The
// kernel frees it when the process ends, however it ends; what the file says
// (a pid) is for people.
func TakeLock(stateDir string) (*Lock, error) {
	path := filepath.Join(stateDir, "pool.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take the pool's lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (%s)", ErrRunning, path)
		}
		return nil, fmt.Errorf("take the pool's lock %s: %w", path, err)
	}
	// Best effort: the lock is what counts.
	_ = file.Truncate(0)
	_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return &Lock{file}, nil
}

// Release gives the lock back.
func (l *Lock) Release() { l.file.Close() }

var uidPattern = regexp.MustCompile(`^[a-z0-9]{8}$`)

// ReadUID returns the pool's uid on this host, or "" where none was made yet.
func ReadUID(stateDir string) (string, error) {
	path := filepath.Join(stateDir, "uid")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the pool's uid: %w", err)
	}
	uid := strings.TrimSpace(string(data))
	if !uidPattern.MatchString(uid) {
		return "", fmt.Errorf("%s does not hold a uid (eight of a-z 0-9); remove it, then `pool up --adopt UID` takes the old sandboxes over", path)
	}
	return uid, nil
}

// WriteUID makes the uid file, once: another one there is an error.
func WriteUID(stateDir, uid string) error {
	if !uidPattern.MatchString(uid) {
		return fmt.Errorf("%q is not a uid: eight of a-z 0-9, as in the names that `pool up` lists", uid)
	}
	path := filepath.Join(stateDir, "uid")
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(uid+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the pool's uid: %w", err)
	}
	defer os.Remove(temporary)
	if err := os.Link(temporary, path); err != nil {
		return fmt.Errorf("write the pool's uid: %w", err)
	}
	return nil
}

// NewUID draws a uid.
func NewUID() string {
	return strings.ToLower(rand.Text()[:8])
}
