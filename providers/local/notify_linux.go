package local

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watches tell followers that a file has grown. All share one inotify
// instance, of which a user has only 128, and one goroutine that lives as long
// as somebody watches.
type watches struct {
	mu      sync.Mutex
	inotify *os.File
	fd      int                              // of inotify: its Fd method would make it blocking
	waiting map[int32]map[chan struct{}]bool // by watch descriptor
}

// watch gives a channel that is signalled when the file changes. It is nil
// where the kernel has no watch left: then the caller looks for itself.
func (w *watches) watch(file *os.File) (grown <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	none := func() {}
	if w.inotify == nil && w.start() != nil {
		return nil, none
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, none
	}
	var wd int
	// Through the descriptor, so that the watched file is the opened one.
	control := raw.Control(func(fd uintptr) {
		wd, err = unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_MODIFY)
	})
	if control != nil || err != nil {
		w.endIfIdle()
		return nil, none
	}
	ch, key := make(chan struct{}, 1), int32(wd)
	if w.waiting[key] == nil {
		w.waiting[key] = map[chan struct{}]bool{}
	}
	w.waiting[key][ch] = true
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[key], ch)
		if len(w.waiting[key]) > 0 {
			return
		}
		delete(w.waiting, key)
		if w.inotify != nil {
			unix.InotifyRmWatch(w.fd, uint32(key))
		}
		w.endIfIdle()
	}
}

func (w *watches) start() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	w.inotify, w.fd = os.NewFile(uintptr(fd), "inotify"), fd
	w.waiting = map[int32]map[chan struct{}]bool{}
	go w.deliver(w.inotify)
	return nil
}

func (w *watches) endIfIdle() {
	if len(w.waiting) == 0 && w.inotify != nil {
		w.inotify.Close()
		w.inotify = nil
	}
}

// deliver passes events on until the instance is closed.
func (w *watches) deliver(inotify *os.File) {
	buffer := make([]byte, 4096)
	for {
		n, err := inotify.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		for at := 0; w.inotify == inotify && at+unix.SizeofInotifyEvent <= n; {
			event := buffer[at:]
			wd := int32(binary.NativeEndian.Uint32(event))
			mask := binary.NativeEndian.Uint32(event[4:])
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(event[12:]))
			if mask&unix.IN_Q_OVERFLOW != 0 {
				for wd := range w.waiting {
					w.tell(wd)
				}
				continue
			}
			w.tell(wd)
		}
		w.mu.Unlock()
	}
}

func (w *watches) tell(wd int32) {
	for ch := range w.waiting[wd] {
		select {
		case ch <- struct{}{}:
		default: // it has not looked yet; one word is enough
		}
	}
}
