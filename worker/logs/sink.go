package logs

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Sink is a rotated log for what a program writes by itself, such as the
// supervisor's own. It has the form of all logs, so that Read and Follow serve
// it too. Write wants whole lines, as slog writes them, and is safe for
// concurrent use. A line longer than the limit is cut off with a marker.
type Sink struct {
	mu       sync.Mutex
	files    files
	redactor *Redactor
	out      []byte
}

// NewSink opens the log, going on behind what it holds.
func NewSink(s Settings, r *Redactor) (*Sink, error) {
	settings, err := s.checked()
	if err != nil {
		return nil, err
	}
	sink := &Sink{redactor: r, files: files{settings: settings, disk: realDisk{}, now: time.Now}}
	return sink, sink.files.open(Position{})
}

var _ io.WriteCloser = (*Sink)(nil)

// SetRedactor replaces what is hidden from now on.
func (s *Sink) SetRedactor(r *Redactor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redactor = r
}

// Write stamps and stores the lines of b. A failed write is lost; the next
// one is tried anew.
func (s *Sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files.file == nil {
		if err := s.files.open(Position{}); err != nil {
			return 0, err
		}
	}
	now := s.files.now()
	limit := s.files.settings.LineLimit
	for line := range bytes.Lines(b) {
		text := bytes.TrimRight(line, "\r\n")
		if spans := s.redactor.find(text, nil); len(spans) > 0 {
			text = appendRedacted(nil, text, 0, spans)
		}
		s.out = append(appendStamp(s.out[:0], now), ' ')
		s.out = append(s.out, text[:min(len(text), limit)]...)
		if len(text) > limit {
			s.out = append(s.out, " [pool: line was longer]"...)
		}
		s.out = append(s.out, '\n')
		if int64(len(s.out)) > s.files.room() {
			if err := s.files.rotate(); err != nil {
				return 0, err
			}
		}
		if err := s.files.append(s.out); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Close closes the file; a later Write opens it again.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files.close()
	return nil
}

// WithoutTime, as a slog handler's ReplaceAttr, leaves out slog's own time: the
// Sink stamps each line.
func WithoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
