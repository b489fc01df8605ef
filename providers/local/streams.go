package local

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// streams carry a command's input and output. When the command has ended, what
// lies in its pipes is read to the last byte, and nothing is waited for: a
// child that lives on may hold them open for days.
type streams struct {
	in      func() // copies the input; nil without one
	way     io.WriteCloser
	outs    []*outlet
	reading sync.WaitGroup
	done    chan struct{} // closed when the command has ended
	short   atomic.Bool   // output was given up because the context ended
}

// outlet is one pipe or terminal that a command writes to.
type outlet struct {
	from *os.File
	to   *writerTarget
}

// writerTarget is where output goes; it remembers the first failure, after
// which output is still read, so that the command is not stopped by it.
type writerTarget struct {
	w   io.Writer
	err error
}

func target(w io.Writer) *writerTarget {
	if w == nil {
		return nil
	}
	return &writerTarget{w: w}
}

func (t *writerTarget) write(b []byte) {
	if t.err == nil {
		_, t.err = t.w.Write(b)
	}
}

// give sets the way in. Last is written at the input's end.
func (s *streams) give(way io.WriteCloser, input io.Reader, last []byte) {
	s.way = way
	s.in = func() {
		defer way.Close()
		// A command that does not read its input, or has ended, is no error.
		if _, err := io.Copy(way, input); err == nil && last != nil {
			way.Write(last)
		}
	}
}

func (s *streams) take(from *os.File, to *writerTarget) {
	s.outs = append(s.outs, &outlet{from, to})
}

func (s *streams) over() <-chan struct{} { return s.done }

// run begins to copy. Nobody waits for the input's goroutine: it ends with its
// reader, which is the caller's to end.
func (s *streams) run() {
	if s.in != nil {
		go s.in()
	}
	for _, out := range s.outs {
		s.reading.Go(out.copy)
	}
}

// copy reads until the end, or until the deadline that says that the command
// has ended, then what is there already.
func (o *outlet) copy() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := o.from.Read(buffer)
		if n > 0 {
			o.to.write(buffer[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.drain(buffer)
			return
		}
		if err != nil { // the end; on a terminal it is called EIO
			return
		}
	}
}

// drain reads without waiting.
func (o *outlet) drain(buffer []byte) {
	if o.from.SetReadDeadline(time.Time{}) != nil {
		return
	}
	raw, err := o.from.SyscallConn()
	if err != nil {
		return
	}
	for taken := 0; taken < maxPipe; {
		n := 0
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			for {
				n, failed = unix.Read(int(fd), buffer)
				if failed != unix.EINTR {
					return true
				}
			}
		})
		if err != nil || failed != nil || n <= 0 {
			return
		}
		o.to.write(buffer[:n])
		taken += n
	}
}

// maxPipe is more than a pipe or terminal holds, in bytes: what comes after
// that was written by a child after the command's end.
const maxPipe = 1 << 20

// end takes what is left after the command's end; when ctx ends first, because
// somebody reads slowly, the rest is given up.
func (s *streams) end(ctx context.Context) {
	close(s.done)
	for _, out := range s.outs {
		out.from.SetReadDeadline(time.Unix(1, 0))
	}
	all := make(chan struct{})
	go func() { s.reading.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
		s.short.Store(true)
	}
	s.close()
}

// abandon ends the copying after a kill. The caller's writers are left alone
// from then on, unless one of them is stuck.
func (s *streams) abandon() {
	close(s.done)
	s.short.Store(true)
	s.close()
	all := make(chan struct{})
	go func() { s.reading.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(time.Second):
	}
}

func (s *streams) cut() bool { return s.short.Load() }

// failure is the first error in passing output on; call it after end.
func (s *streams) failure() error {
	if s.cut() {
		return nil
	}
	for _, out := range s.outs {
		if out.to.err != nil {
			return out.to.err
		}
	}
	return nil
}

// close closes our ends; a copy that waits there ends with it.
func (s *streams) close() {
	if s.way != nil {
		s.way.Close()
	}
	for _, out := range s.outs {
		out.from.Close()
	}
}

func newStreams() *streams { return &streams{done: make(chan struct{})} }
