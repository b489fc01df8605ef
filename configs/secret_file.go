package configs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// secretLimit bounds what is read as a secret, in bytes: a key or a token is
// never near it, a wrong path easily beyond.
const secretLimit = 64 << 10

// readPrivateFile reads a file that nobody else can read. It asks the opened
// file, not the path, so that nothing can be exchanged in between.
func readPrivateFile(path string) ([]byte, error) {
	// O_NONBLOCK, since opening a pipe without a writer would wait for one.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret file %s: %w", path, bare(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret file %s: %w", path, bare(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the secret file %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("others can reach the secret file %s (mode %04o); run: chmod 600 %s", path, mode, shellWord(path))
	}
	data, err := io.ReadAll(io.LimitReader(file, secretLimit+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret file %s: %w", path, bare(err))
	}
	if len(data) > secretLimit {
		return nil, fmt.Errorf("the secret file %s is larger than 64 KiB; is it the right one?", path)
	}
	return data, nil
}

// bare drops the operation and the path, which the caller says already.
func bare(err error) error {
	if wrapped, ok := err.(*fs.PathError); ok {
		return wrapped.Err
	}
	return err
}

// shellWord quotes a path for a command that people paste into a shell.
func shellWord(path string) string {
	for _, r := range path {
		plain := r == '/' || r == '.' || r == '-' || r == '_' ||
			(r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		if !plain {
			return strconv.Quote(path)
		}
	}
	return path
}
