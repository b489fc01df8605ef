package logs

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	commitEvery = 500 * time.Millisecond
	commitBytes = 8 << 20 // of output; sooner than commitEvery under load
	promptIdle  = 250 * time.Millisecond
	maxBacklog  = 64 << 20
	chunkSize   = 256 << 10
	maxNotes    = 256
	maxNote     = 2 << 10 // bytes of one note
)

// Options configure a Follower.
type Options struct {
	Settings
	// Recorded is the last position that Commit recorded; zero for a new slot.
	Recorded Position
	// Commit records a position durably. After an error it is called again
	// later, and meanwhile at most one file's worth of lines is written. It is
	// called by Run, and by Note while no Run is under way.
	Commit func(Position) error
	// OnError hears of trouble with the log, and hears nil when it is over.
	// Called by the same goroutines as Commit. May be nil.
	OnError func(error)
	// Redactor hides secrets; see Follower.SetRedactor. May be nil.
	Redactor *Redactor
}

// Follower writes the log of one slot, over any number of workers.
type Follower struct {
	options  Options
	redactor atomic.Pointer[Redactor]

	running sync.Mutex // held by whoever writes; guards everything below it
	files   files
	lines   splitter
	out     []byte               // whole lines, not yet written
	read    int64                // output given out by lines so far, as an offset
	outEnd  int64                // the part of it that is in out, as an offset
	at      Position             // what is written
	saved   Position             // what is committed
	stamp   [2 * stampWidth]byte // the rest is room for formatting
	stamped int64                // the millisecond that stamp shows
	gap     gap
	trouble bool // OnError heard of an error and not yet of its end

	keepsAll bool // the last Discard failed, and OnError heard of it

	notes struct {
		sync.Mutex
		waiting []note
		lost    int
	}
	noted chan struct{}
}

type note struct {
	at   time.Time
	text string
}

// NewFollower checks the options. The disk is touched by the first Run or Note.
func NewFollower(o Options) (*Follower, error) {
	settings, err := o.Settings.checked()
	if err != nil {
		return nil, err
	}
	if o.Commit == nil {
		return nil, errors.New("a log follower needs a way to record its position")
	}
	o.Settings = settings
	f := &Follower{
		options: o,
		files:   files{settings: settings, disk: realDisk{}, now: time.Now},
		lines:   splitter{limit: settings.LineLimit},
		at:      o.Recorded,
		saved:   o.Recorded,
		stamped: -1,
		noted:   make(chan struct{}, 1),
	}
	f.redactor.Store(o.Redactor)
	return f, nil
}

// SetRedactor replaces what is hidden, for all lines not yet written. It may
// be called at any time.
func (f *Follower) SetRedactor(r *Redactor) { f.redactor.Store(r) }

// Note adds lines of pool's own, marked as such; a few hundred may wait. While
// a Run is under way that writes them, else the caller does, and commits.
func (f *Follower) Note(text string) {
	f.notes.Lock()
	if len(f.notes.waiting) < maxNotes {
		f.notes.waiting = append(f.notes.waiting, note{time.Now(), text})
	} else {
		f.notes.lost++
	}
	f.notes.Unlock()
	select {
	case f.noted <- struct{}{}:
	default:
	}
	f.notesAlone()
}

// Notes is a writer whose every write, of whole lines, is a Note; for the
// output of a sandbox's preparation.
func (f *Follower) Notes() io.Writer { return noteWriter{f} }

type noteWriter struct{ f *Follower }

func (w noteWriter) Write(b []byte) (int, error) {
	w.f.Note(string(b))
	return len(b), nil
}

// notesAlone writes waiting notes unless a Run does. What fails stays waiting.
func (f *Follower) notesAlone() {
	for f.notesWait() && f.running.TryLock() {
		err := f.prepare()
		if err == nil {
			err = f.commit()
		}
		if err == nil {
			err = f.writeNotes(once)
		}
		if err == nil {
			err = f.commit()
		}
		f.out = f.out[:0]
		f.report(err)
		f.running.Unlock()
		if err != nil {
			return
		}
	}
}

func (f *Follower) notesWait() bool {
	f.notes.Lock()
	defer f.notes.Unlock()
	return len(f.notes.waiting) > 0
}

// Position is what is committed. It waits for a Run to end.
func (f *Follower) Position() Position {
	f.running.Lock()
	defer f.running.Unlock()
	return f.saved
}

// Close gives up the open file. Call it when no Run is under way.
func (f *Follower) Close() {
	f.running.Lock()
	defer f.running.Unlock()
	f.files.close()
}
