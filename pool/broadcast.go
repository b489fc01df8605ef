package pool

import "sync"

// broadcast wakes everyone who waits for news; it carries none itself.
type broadcast struct {
	mu     sync.Mutex
	next   chan struct{}
	closed bool
}

func newBroadcast() *broadcast { return &broadcast{next: make(chan struct{})} }

// wait returns a channel that is closed at the next send.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		close(b.next)
		b.next = make(chan struct{})
	}
}

// close wakes everyone for good.
func (b *broadcast) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.next)
	}
}
