package logs

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// persist carries out a step until it succeeds, or gives up with its error.
type persist func(step func() error) error

func once(step func() error) error { return step() }

// stubborn tries a step again, ever more slowly, until it succeeds or ctx
// ends. Meanwhile nothing more is read: the output waits in the sandbox.
func (f *Follower) stubborn(ctx context.Context) persist {
	return func(step func() error) error {
		for delay := time.Second; ; delay = min(2*delay, 30*time.Second) {
			err := step()
			if err == nil {
				return nil
			}
			f.report(err)
			if !sleep(ctx, delay) {
				return fmt.Errorf("%w (%w)", ctx.Err(), err)
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// report tells of the beginning of trouble; commit tells of its end.
func (f *Follower) report(err error) {
	if err == nil || f.trouble {
		return
	}
	f.trouble = true
	if f.options.OnError != nil {
		f.options.OnError(err)
	}
}

// prepare opens the log where it was written last.
func (f *Follower) prepare() error {
	if f.files.file != nil {
		return nil
	}
	if err := f.files.open(f.at); err != nil {
		return err
	}
	before := f.at
	f.at.FileSeq, f.at.Length = f.files.seq, f.files.length
	if lost := before.Length - f.at.Length; before.FileSeq == f.at.FileSeq && lost > 0 {
		f.noteFirst(note{time.Now(), fmt.Sprintf("%d bytes of this log are lost; did the host go down?", lost)})
	}
	return nil
}

// add appends a line to out, behind a rotation where the file is full. The
// output below end is in the log once out is written.
func (f *Follower) add(try persist, mark string, text []byte, end int64) error {
	need := int64(overhead + len(mark) + len(text))
	if int64(len(f.out))+need > f.files.room() {
		if err := f.nextFile(try); err != nil {
			return err
		}
	} else if len(f.out) > chunkSize {
		if err := try(f.write); err != nil {
			return err
		}
	}
	f.out = append(append(f.out, f.stamp[:stampWidth]...), ' ')
	f.out = append(append(append(f.out, mark...), text...), '\n')
	f.outEnd = end
	return nil
}

// nextFile writes, commits and rotates: so a crash leaves at most one file
// that is not recorded.
func (f *Follower) nextFile(try persist) error {
	if err := try(f.write); err != nil {
		return err
	}
	if err := try(f.commit); err != nil {
		return err
	}
	full := f.at.FileSeq
	return try(func() error {
		if err := f.prepare(); err != nil || f.files.seq != full {
			return err
		}
		if err := f.files.rotate(); err != nil {
			return err
		}
		f.at.FileSeq, f.at.Length = f.files.seq, f.files.length
		return nil
	})
}

// write hands out to the file system.
func (f *Follower) write() error {
	if len(f.out) == 0 {
		return nil
	}
	if err := f.prepare(); err != nil {
		return err
	}
	if err := f.files.append(f.out); err != nil {
		return err
	}
	f.at.FileSeq, f.at.Length, f.at.Offset = f.files.seq, f.files.length, f.outEnd
	f.out = f.out[:0]
	return nil
}

// commit records what is written.
func (f *Follower) commit() error {
	if f.at != f.saved {
		if err := f.options.Commit(f.at); err != nil {
			return fmt.Errorf("record log position: %w", err)
		}
		f.saved = f.at
	}
	if f.trouble && len(f.out) == 0 {
		f.trouble = false
		if f.options.OnError != nil {
			f.options.OnError(nil)
		}
	}
	return nil
}

func (f *Follower) setTime(at time.Time) {
	if ms := at.UnixMilli(); ms != f.stamped {
		f.stamped = ms
		appendStamp(f.stamp[:0], at)
	}
}

// writeNotes writes the waiting notes. out is empty before and after.
func (f *Follower) writeNotes(try persist) error {
	for {
		next, ok := f.takeNote()
		if !ok {
			return nil
		}
		f.setTime(next.at)
		if err := f.writeNote(try, next.text); err != nil {
			f.noteFirst(next)
			return err
		}
	}
}

func (f *Follower) writeNote(try persist, text string) error {
	for line := range strings.Lines(f.redactor.Load().String(text)) {
		line = strings.TrimRight(line, "\r\n")
		line = line[:min(len(line), f.lines.limit, maxNote)]
		if err := f.add(try, poolMark, []byte(line), f.at.Offset); err != nil {
			return err
		}
	}
	return try(f.write)
}

func (f *Follower) takeNote() (note, bool) {
	f.notes.Lock()
	defer f.notes.Unlock()
	if len(f.notes.waiting) == 0 {
		return note{}, false
	}
	next := f.notes.waiting[0]
	f.notes.waiting = f.notes.waiting[1:]
	if f.notes.lost > 0 {
		next.text += fmt.Sprintf(" (%d notes after this one found no room)", f.notes.lost)
		f.notes.lost = 0
	}
	return next, true
}

func (f *Follower) noteFirst(n note) {
	f.notes.Lock()
	defer f.notes.Unlock()
	f.notes.waiting = append([]note{n}, f.notes.waiting...)
}
