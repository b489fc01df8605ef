package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// punchHole frees the whole blocks below offset; the file keeps its length.
func punchHole(file *os.File, offset int64) error {
	err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, offset)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return nil
	}
	return err
}
