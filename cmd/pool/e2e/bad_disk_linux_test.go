package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/pool/control"
)

// smallDisk puts the state folder on a file system of so many bytes.
func (w *world) smallDisk(size string) {
	w.Helper()
	if err := os.MkdirAll(w.state, 0o700); err != nil {
		w.Fatal(err)
	}
	if err := unix.Mount("tmpfs", w.state, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		w.Skipf("no small disk can be mounted here: %v", err)
	}
	w.mayLeave = true // the mount itself
	w.Cleanup(func() {
		// It runs before the world's own end, which could not reach the pool.
		if _, answers := w.peek(); answers {
			w.run("down", "--now")
		}
		if err := unix.Unmount(w.state, unix.MNT_DETACH); err != nil {
			w.Errorf("unmount %s: %v", w.state, err)
		}
	})
}

// fill takes all room that is left and returns how to give it back.
func (w *world) fill() (free func()) {
	w.Helper()
	ballast := filepath.Join(w.state, "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	for size := 64 << 10; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			w.Fatalf("the disk does not get full: %v", err)
		}
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			w.Fatal(err)
		}
	}
}

func TestAFullDiskStopsNoWorkerAndPassesByItself(t *testing.T) {
	w := newWorld(t)
	w.smallDisk("12m")
	w.set("pool.workers", 3)
	w.up()
	before := w.eventuallyPool("three run", func(p control.Pool) bool { return p.Running == 3 })
	free := w.fill()
	w.eventually("a change of size is refused for want of room", func() bool {
		r := w.run("scale", "5")
		if r.code == 0 { // it still went into room that was there
			w.must("scale", "3")
			return false
		}
		w.checkRefusal(r, 1, "make room", w.state)
		return true
	})
	full := w.eventuallyPool("status says so", func(p control.Pool) bool {
		return slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "nothing can be recorded") })
	})
	if text := w.must("status").out; !strings.Contains(text, "nothing can be recorded") {
		t.Errorf("status says nothing of it:\n%s", text)
	}
	if got, want := identities(full), identities(before); !slices.Equal(got, want) {
		t.Errorf("the workers changed:\n%+v\n%+v", want, got)
	}
	stopped := worker(before, "web-2").PID
	w.must("drain", "--now", "web-2")
	w.eventually("a worker can still be stopped", func() bool { return !alive(stopped) })
	free()
	after := w.eventuallyPool("it recovers", func(p control.Pool) bool {
		return !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "nothing can be recorded") }) &&
			worker(p, "web-2").State == "absent"
	})
	for _, name := range []string{"web-0", "web-1"} {
		if worker(after, name).PID != worker(before, name).PID {
			t.Errorf("%s was restarted: %+v", name, worker(after, name))
		}
	}
	w.must("undrain", "web-2", "--wait")
	w.must("scale", "4", "--wait")
}

func TestAFullDiskAtTheStartIsRefused(t *testing.T) {
	w := newWorld(t)
	w.smallDisk("4m")
	free := w.fill()
	w.refuse(1, []string{"up", "-d"}, w.state, "make room")
	w.refuse(1, []string{"up"}, w.state, "make room")
	free()
	w.set("pool.workers", 1)
	w.up()
}
