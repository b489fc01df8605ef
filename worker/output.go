package worker

import (
	"bytes"
	"strings"
	"sync"
)

// tailBuffer keeps the last limit bytes written to it. Both outputs of a
// command may share one.
type tailBuffer struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, p...)
	if over := len(b.kept) - b.limit; over > 0 {
		b.kept = b.kept[:copy(b.kept, b.kept[over:])]
	}
	return len(p), nil
}

func (b *tailBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.kept)
}

// lastLines are the last n lines that are not empty.
func (b *tailBuffer) lastLines(n int) []string {
	var lines []string
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-n):]
}

// lockedWriter lets both outputs of a command go to one writer.
type lockedWriter struct {
	mu    sync.Mutex
	write func(p []byte) (int, error)
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(p)
}

// lineWriter hands on whole lines, so that nothing is split over two writes.
type lineWriter struct {
	write   func(line string)
	partial []byte
}

// maxPartial is where a line without end is cut.
const maxPartial = 64 << 10

func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		i := bytes.IndexByte(w.partial, '\n')
		if i < 0 {
			break
		}
		w.write(string(w.partial[:i+1]))
		w.partial = w.partial[:copy(w.partial, w.partial[i+1:])]
	}
	if len(w.partial) > maxPartial {
		w.end()
	}
	return len(p), nil
}

// end hands on a last line without its newline, with one.
func (w *lineWriter) end() {
	if len(w.partial) > 0 {
		w.write(string(w.partial) + "\n")
		w.partial = w.partial[:0]
	}
}
