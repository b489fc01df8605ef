package e2e

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAReadOnlyStateFolderIsRefused(t *testing.T) {
	w := newWorld(t)
	w.ran()
	w.mayLeave = true
	makeReadOnly(w)
	w.refuse(1, []string{"up", "-d", "--force"}, w.state, "cannot be written", "state_dir")
	w.refuse(1, []string{"up"}, w.state, "cannot be written", "state_dir")
}

// makeReadOnly takes the right to write from the state folder. Root writes
// everywhere, so for root the file system itself has to refuse.
func makeReadOnly(w *world) {
	w.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(w.state, 0o500); err != nil {
			w.Fatal(err)
		}
		return
	}
	if err := unix.Mount(w.state, w.state, "", unix.MS_BIND, ""); err != nil {
		w.Skipf("root may not mount here, so nothing can be read-only for it: %v", err)
	}
	w.Cleanup(func() { unmount(w) })
	if err := unix.Mount("", w.state, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		w.Skipf("root may not remount here: %v", err)
	}
}

func unmount(w *world) {
	var err error
	for range 100 {
		if err = unix.Unmount(w.state, 0); err != syscall.EBUSY {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		w.Errorf("unmount %s: %v", w.state, err)
	}
}
