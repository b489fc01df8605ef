package logs

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"
)

// pollEvery is how often a reader looks whose writer is another process.
const pollEvery = 150 * time.Millisecond

// Follow gives out the lines behind cursor, all for an empty one, and then
// every further line, until ctx ends or emit fails, whose error it returns. It
// goes on over rotations, over deletion, and over a restart of the supervisor,
// which cuts off lines that it is about to write again: those are given out
// once. It reads files of its own and never holds up the writer; a reader so
// slow that files were rotated away gets a line that says so.
func Follow(ctx context.Context, dir, name, cursor string, emit func(Line) error) error {
	at, err := parseCursor(cursor)
	if err != nil {
		return err
	}
	heard, done := listen(path(dir, name, 0))
	defer done()
	t := tail{dir: dir, name: name, at: at, emit: emit}
	defer t.close()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		if err := t.advance(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-heard:
		case <-poll.C:
		}
	}
}

// past is behind the end of any file.
const past = math.MaxInt64

// tail is where a Follow stands.
type tail struct {
	dir, name string
	at        place
	part      part // zero File: none open
	emit      func(Line) error
}

func (t *tail) close() {
	if t.part.File != nil {
		t.part.Close()
		t.part = part{}
	}
}

// advance reads all there is.
func (t *tail) advance(ctx context.Context) error {
	for ctx.Err() == nil {
		moved, err := t.step(ctx)
		if err != nil || !moved {
			return err
		}
	}
	return ctx.Err()
}

// step reads the open file to its end, or moves on to the next; it tells
// whether there may be more.
func (t *tail) step(ctx context.Context) (bool, error) {
	if t.part.File == nil {
		return t.next()
	}
	// Whether the file was replaced is asked first: then what is read next is
	// all that it will ever have.
	last, err := t.replaced()
	if err != nil {
		return false, err
	}
	if err := t.read(ctx); err != nil {
		return false, err
	}
	if !last {
		return false, nil
	}
	t.at.offset = past
	t.close()
	return t.next()
}

func (t *tail) read(ctx context.Context) error {
	info, err := t.part.Stat()
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if info.Size() <= t.at.offset {
		return nil // nothing new; or cut, and about to be written again
	}
	t.at, err = readOn(t.part, t.at, func(l Line) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return t.emit(l)
	})
	return err
}

// replaced reports whether the open file is no longer the one written to.
func (t *tail) replaced() (bool, error) {
	held, err := t.part.Stat()
	if err != nil {
		return false, fmt.Errorf("read log: %w", err)
	}
	named, err := os.Stat(path(t.dir, t.name, 0))
	if err != nil {
		return false, nil // in the middle of a rotation, or deleted: a new one comes
	}
	if !os.SameFile(held, named) {
		return true, nil
	}
	if held.Size() >= t.at.offset {
		return false, nil
	}
	seq, _, ok := headerOf(t.part)
	return ok && seq != t.part.seq, nil // emptied and begun anew
}

// next opens the file of the cursor, or the oldest that is newer.
func (t *tail) next() (bool, error) {
	parts, err := openParts(t.dir, t.name)
	if err != nil {
		return false, err
	}
	if n := len(parts); n > 0 && parts[n-1].seq < t.at.seq {
		t.at = place{} // the log was lost and begun anew, with its numbers
	}
	for i, p := range parts {
		if p.seq < t.at.seq || (p.seq == t.at.seq && t.done(p, parts[i+1:])) {
			p.Close()
			continue
		}
		closeParts(parts[i+1:])
		lost := p.seq - t.at.seq - 1
		t.part = p
		if p.seq != t.at.seq {
			known := t.at.seq > 0
			t.at = place{p.seq, p.first}
			if known && lost > 0 {
				text := fmt.Sprintf("%s%d log files were rotated away before they were read here", poolMark, lost)
				return true, t.emit(Line{time.Now().UTC(), text, t.at.String()})
			}
		}
		return true, nil
	}
	return false, nil
}

// done reports whether a file is read to its end and has a successor.
func (t *tail) done(p part, newer []part) bool {
	if t.at.offset == past {
		return true
	}
	if len(newer) == 0 {
		return false
	}
	info, err := p.Stat()
	return err == nil && info.Size() <= t.at.offset
}
