package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// files is one log on disk: the file written to and its predecessors. Every
// file begins with a line that carries its number, so that numbers survive
// renames and a crash at any step can be told from the files alone.
type files struct {
	settings Settings
	disk     disk
	now      func() time.Time

	file   file  // nil: to be opened
	seq    int64 // of file
	length int64 // bytes of file that count; anything beyond is a failed write
}

// disk is what files needs of a file system; tests crash between its steps.
type disk interface {
	open(path string, flags int) (file, error)
	rename(from, to string) error
	remove(path string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

type realDisk struct{}

func (realDisk) open(path string, flags int) (file, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}
func (realDisk) rename(from, to string) error { return os.Rename(from, to) }
func (realDisk) remove(path string) error     { return os.Remove(path) }

// open takes up the log where it was recorded. What the recorded file has
// beyond the recorded length, and a whole file begun after it, is cut away: it
// was never committed and will be written again. Rotation commits first, so at
// most one such file exists.
func (l *files) open(recorded Position) error {
	if err := os.MkdirAll(l.settings.Dir, 0o700); err != nil {
		return fmt.Errorf("log folder: %w", err)
	}
	f, err := l.disk.open(l.path(0), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	seq, first, whole := headerOf(f)
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	length := info.Size()
	switch {
	case !whole && length >= headerRoom:
		// Not written by us: kept as an older file, out of the way.
		f.Close()
		return l.begin(max(recorded.FileSeq, l.newestRotated()) + 1)
	case !whole:
		f.Close()
		return l.fresh(max(recorded.FileSeq, l.newestRotated()) + 1)
	case seq == recorded.FileSeq:
		length = min(length, max(recorded.Length, first))
	case seq == recorded.FileSeq+1 && recorded.FileSeq > 0:
		length = first
	case seq < recorded.FileSeq:
		f.Close()
		return l.begin(recorded.FileSeq + 1)
	default:
		// Nothing is recorded of this file: all of it counts but a torn line.
		if length, err = afterNewline(f, length); err != nil {
			f.Close()
			return fmt.Errorf("read log: %w", err)
		}
	}
	if err := f.Truncate(length); err != nil {
		f.Close()
		return fmt.Errorf("cut log to what is recorded: %w", err)
	}
	l.file, l.seq, l.length = f, seq, length
	return nil
}

func headerOf(f io.ReaderAt) (seq, length int64, ok bool) {
	var b [headerRoom]byte
	n, _ := f.ReadAt(b[:], 0)
	return parseHeader(b[:n])
}

// newestRotated is the number of the newest file that is no longer written to.
func (l *files) newestRotated() int64 {
	for i := 1; i < l.settings.MaxFiles; i++ {
		f, err := l.disk.open(l.path(i), os.O_RDONLY)
		if err != nil {
			continue
		}
		seq, _, ok := headerOf(f)
		f.Close()
		if ok {
			return seq
		}
	}
	return 0
}

// room is how many bytes still fit into the file.
func (l *files) room() int64 { return l.settings.MaxSize - l.length }

// append adds whole lines. On an error nothing counts as added, and the next
// append writes over what a part of a write left behind.
func (l *files) append(b []byte) error {
	if err := l.intact(); err != nil {
		return err
	}
	n, err := l.file.WriteAt(b, l.length)
	if err != nil {
		if n > 0 {
			_ = l.file.Truncate(l.length) // the next append overwrites it in any case
		}
		return fmt.Errorf("write log: %w", err)
	}
	l.length += int64(len(b))
	wake(l.path(0))
	return nil
}

// intact finds out whether somebody removed or emptied the file under us, and
// then begins a new one.
func (l *files) intact() error {
	held, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("look at log: %w", err)
	}
	named, err := os.Lstat(l.path(0))
	switch {
	case err == nil && os.SameFile(held, named) && held.Size() >= l.length:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look at log: %w", err)
	}
	l.close()
	return l.fresh(l.seq + 1)
}

// rotate begins the next file. The caller has committed what is in this one.
func (l *files) rotate() error {
	l.close()
	return l.begin(l.seq + 1)
}

// begin moves the files up by one, as far as the first gap that an earlier
// crash may have left, and begins file seq.
func (l *files) begin(seq int64) error {
	gap := 1
	for ; gap < l.settings.MaxFiles; gap++ {
		if _, err := os.Lstat(l.path(gap)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if gap >= l.settings.MaxFiles {
		gap = l.settings.MaxFiles - 1
		if err := l.disk.remove(l.path(gap)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate log: %w", err)
		}
	}
	for i := gap; i > 0; i-- {
		if err := l.disk.rename(l.path(i-1), l.path(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate log: %w", err)
		}
	}
	return l.fresh(seq)
}

// fresh begins file seq in the place of whatever has the name.
func (l *files) fresh(seq int64) error {
	f, err := l.disk.open(l.path(0), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("begin log: %w", err)
	}
	header := appendHeader(nil, seq, l.now())
	if _, err := f.WriteAt(header, 0); err != nil {
		_ = f.Truncate(0)
		f.Close()
		return fmt.Errorf("begin log: %w", err)
	}
	l.file, l.seq, l.length = f, seq, int64(len(header))
	wake(l.path(0))
	return nil
}

func (l *files) close() {
	if l.file != nil {
		l.file.Close() // everything is written; there is nothing to lose
		l.file = nil
	}
}

func (l *files) path(n int) string { return path(l.settings.Dir, l.settings.Name, n) }
