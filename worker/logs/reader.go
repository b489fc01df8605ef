package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Line is one line of a log. Cursor, given to Follow, goes on behind it, also
// after a rotation and after a restart of the supervisor.
type Line struct {
	At     time.Time // zero for a line that has no stamp
	Text   string    // as the worker wrote it, less secrets; see Clean
	Cursor string
}

// Query chooses lines of a log.
type Query struct {
	Tail     int       // the last so many of those chosen; below 0: all
	From, To time.Time // From ≤ At < To; zero: no bound
}

// place is a cursor: a byte of a file.
type place struct{ seq, offset int64 }

func (p place) String() string { return fmt.Sprintf("%d:%d", p.seq, p.offset) }

func parseCursor(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	first, second, _ := strings.Cut(cursor, ":")
	seq, err1 := strconv.ParseInt(first, 10, 64)
	offset, err2 := strconv.ParseInt(second, 10, 64)
	if err1 != nil || err2 != nil || seq < 0 || offset < 0 {
		return place{}, fmt.Errorf("%q is no log cursor; leave it out to begin anew", cursor)
	}
	return place{seq, offset}, nil
}

// part is one open file of a log.
type part struct {
	*os.File
	seq, first int64 // its number, and where its lines begin
}

// openParts opens all files of a log, oldest first. It opens the newest first,
// so that a rotation meanwhile shows a file twice and hides none.
func openParts(dir, name string) ([]part, error) {
	var parts []part
	seen := map[int64]bool{}
	for i, missing := 0, 0; missing < 2; i++ { // a rotation under way leaves one gap
		f, err := os.Open(path(dir, name, i))
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err != nil {
			closeParts(parts)
			return nil, fmt.Errorf("read log: %w", err)
		}
		missing = 0
		seq, first, ok := headerOf(f)
		if !ok || seen[seq] {
			f.Close()
			continue
		}
		seen[seq] = true
		parts = append(parts, part{f, seq, first})
	}
	sort.Slice(parts, func(i, j int) bool { return parts[i].seq < parts[j].seq })
	return parts, nil
}

func closeParts(parts []part) {
	for _, p := range parts {
		p.Close()
	}
}

// ReadTail returns the last n lines of a log, all for n < 0, and the cursor
// behind them, which is empty while the log has no file.
func ReadTail(dir, name string, n int) (lines []Line, cursor string, err error) {
	cursor, err = Read(dir, name, Query{Tail: n}, func(l Line) error {
		lines = append(lines, l)
		return nil
	})
	return lines, cursor, err
}

// Read gives out the chosen lines, oldest first, and returns the cursor behind
// the last line there was. A log that has no file yet is empty.
func Read(dir, name string, q Query, emit func(Line) error) (cursor string, err error) {
	parts, err := openParts(dir, name)
	if err != nil || len(parts) == 0 {
		return "", err
	}
	defer closeParts(parts)
	chosen := func(l Line) bool {
		return !l.At.Before(q.From) && (q.To.IsZero() || l.At.Before(q.To))
	}
	start := place{}
	if q.Tail >= 0 {
		if q.From.IsZero() && q.To.IsZero() {
			start, err = lastLines(parts, q.Tail)
		} else {
			start, err = lastChosen(parts, q.Tail, chosen)
		}
		if err != nil {
			return "", err
		}
	}
	end := place{}
	for _, p := range parts {
		end = place{p.seq, p.first}
		if p.seq < start.seq {
			continue
		}
		if p.seq == start.seq {
			end.offset = max(start.offset, p.first)
		}
		end, err = readOn(p, end, func(l Line) error {
			if !chosen(l) {
				return nil
			}
			return emit(l)
		})
		if err != nil {
			return "", err
		}
	}
	return end.String(), nil
}

// lastChosen finds where the last n chosen lines begin.
func lastChosen(parts []part, n int, chosen func(Line) bool) (place, error) {
	last := parts[len(parts)-1]
	starts := make([]place, 0, n+1) // a ring would save little: n is small
	for _, p := range parts {
		before := place{p.seq, p.first}
		_, err := readOn(p, before, func(l Line) error {
			if chosen(l) {
				if starts = append(starts, before); len(starts) > n {
					starts = append(starts[:0], starts[1:]...)
				}
			}
			before, _ = parseCursor(l.Cursor)
			return nil
		})
		if err != nil {
			return place{}, err
		}
	}
	if len(starts) == 0 {
		info, err := last.Stat()
		if err != nil {
			return place{}, err
		}
		end, err := afterNewline(last, info.Size())
		return place{last.seq, end}, err
	}
	return starts[0], nil
}

// lastLines finds where the last n lines begin, from the end backwards.
func lastLines(parts []part, n int) (place, error) {
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		info, err := p.Stat()
		if err != nil {
			return place{}, err
		}
		at, err := afterNewline(p, info.Size())
		if err != nil {
			return place{}, err
		}
		for ; n > 0 && at > p.first; n-- {
			if at, err = afterNewline(p, at-1); err != nil {
				return place{}, err
			}
		}
		if n == 0 {
			return place{p.seq, at}, nil
		}
	}
	return place{}, nil
}

// afterNewline returns the offset behind the last newline below end, or 0.
func afterNewline(r io.ReaderAt, end int64) (int64, error) {
	buffer := make([]byte, 8<<10)
	for end > 0 {
		size := min(end, int64(len(buffer)))
		n, err := r.ReadAt(buffer[:size], end-size)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if at := bytes.LastIndexByte(buffer[:n], '\n'); at >= 0 {
			return end - size + int64(at) + 1, nil
		}
		end -= size
	}
	return 0, nil
}

// readOn gives out the complete lines of a file from a place on and returns
// the place behind the last of them.
func readOn(p part, at place, emit func(Line) error) (place, error) {
	at, err := aligned(p, at)
	if err != nil {
		return at, err
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := p.ReadAt(buffer, at.offset)
		if err != nil && err != io.EOF {
			return at, fmt.Errorf("read log: %w", err)
		}
		rest := buffer[:n]
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			rest = after
			at.offset += int64(len(line)) + 1
			when, text := parseLine(line)
			if err := emit(Line{when, string(text), at.String()}); err != nil {
				return at, err
			}
		}
		switch {
		case err == io.EOF:
			return at, nil
		case len(rest) == len(buffer): // one line fills it
			buffer = make([]byte, 2*len(buffer))
		}
	}
}

// aligned moves a place that is not the beginning of a line, since the file
// was cut and written anew, to the next line there is.
func aligned(p part, at place) (place, error) {
	at.offset = max(at.offset, p.first)
	var before [1]byte
	if n, err := p.ReadAt(before[:], at.offset-1); n == 1 && before[0] != '\n' {
		next, err := nextNewline(p, at.offset)
		at.offset = next
		return at, err
	} else if err != nil && err != io.EOF {
		return at, fmt.Errorf("read log: %w", err)
	}
	return at, nil
}

// nextNewline returns the offset behind the first newline from offset on, or
// offset while there is none.
func nextNewline(r io.ReaderAt, offset int64) (int64, error) {
	buffer := make([]byte, 8<<10)
	for at := offset; ; {
		n, err := r.ReadAt(buffer, at)
		if i := bytes.IndexByte(buffer[:n], '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
		if err == io.EOF {
			return offset, nil
		}
		if err != nil {
			return offset, fmt.Errorf("read log: %w", err)
		}
		at += int64(n)
	}
}
