package pool

import (
	"sync"
	"time"
)

// readers counts those who follow the records, so that the records stay open
// until each has read the last of them.
type readers struct {
	mu      sync.Mutex
	n       int
	closing bool
	last    chan struct{} // closed when closing and nobody reads
}

// enter reports whether the records are still open, and counts the reader.
func (r *readers) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return false
	}
	r.n++
	return true
}

func (r *readers) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.closing && r.n == 0 {
		close(r.last)
	}
}

// close lets nobody in any more and waits for those inside, but not long for
// one that does not read on.
func (r *readers) close(patience time.Duration) {
	r.mu.Lock()
	r.closing, r.last = true, make(chan struct{})
	if r.n == 0 {
		close(r.last)
	}
	r.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.last:
	case <-timer.C:
	}
}
