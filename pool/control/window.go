package control

import (
	"context"
	"errors"
	"io"
	"sync"
)

// window counts how many bytes may still be sent before the other side has
// consumed some.
type window struct {
	mu   sync.Mutex
	free int
	more chan struct{} // a credit came in
}

func newWindow() *window { return &window{free: windowSize, more: make(chan struct{}, 1)} }

// take waits until something may be sent and takes up to want of it.
func (w *window) take(ctx context.Context, want int) (int, error) {
	for {
		if n, left := w.grab(want); n > 0 {
			if left {
				w.wake() // another sender may wait too
			}
			return n, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-w.more:
		}
	}
}

func (w *window) grab(want int) (n int, left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(w.free, want)
	w.free -= n
	return n, w.free > 0
}

func (w *window) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

var errWindow = errors.New("exec protocol: more credit than was used")

// give takes back credit from the other side.
func (w *window) give(n int) error {
	w.mu.Lock()
	over := w.free+n > windowSize
	if !over {
		w.free += n
	}
	w.mu.Unlock()
	if over {
		return errWindow
	}
	w.wake()
	return nil
}

var errFlood = errors.New("exec protocol: the other side sent more than the window allows")

// inbox keeps what came in and was not consumed yet: at most a window's
// worth, so that whoever reads the connection never waits for its consumer.
type inbox struct {
	mu     sync.Mutex
	ready  chan struct{} // something came in, or the end
	frames []frame
	held   int
	end    error // set once; read after the frames
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

// put keeps a copy of f.
func (b *inbox) put(f frame) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		return nil // nobody reads any more
	}
	if b.held += len(f.data); b.held > windowSize {
		return errFlood
	}
	f.data = append([]byte(nil), f.data...)
	b.frames = append(b.frames, f)
	b.wake()
	return nil
}

func (b *inbox) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// close ends the inbox with err; what came in before can still be taken.
func (b *inbox) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil {
		b.end = err
	}
	b.wake()
}

// next waits for a frame. One consumer at a time.
func (b *inbox) next() (frame, error) {
	for {
		if f, err, ok := b.pop(); ok {
			return f, err
		}
		<-b.ready
	}
}

func (b *inbox) pop() (frame, error, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.frames) > 0 {
		f := b.frames[0]
		b.frames = b.frames[1:]
		b.held -= len(f.data)
		return f, nil, true
	}
	if b.end != nil {
		b.wake() // for a next call
		return frame{}, b.end, true
	}
	return frame{}, nil, false
}

// reader reads the data of an inbox and calls consumed for each piece.
type reader struct {
	in       *inbox
	consumed func(n int)
	rest     []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 {
		f, err := r.in.next()
		if err != nil {
			return 0, err
		}
		r.rest = f.data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.consumed(n)
	return n, nil
}

var _ io.Reader = (*reader)(nil)
