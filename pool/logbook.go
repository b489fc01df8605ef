package pool

import (
	"encoding/json"
	"path/filepath"
	"sync"

	"github.com/outpostpool/pool/worker/logs"
)

// logBook has one log writer per slot, and records how far each has got.
type logBook struct {
	s       *Supervisor
	dir     string
	commits chan commit

	mu      sync.Mutex
	writers map[int]*logs.Follower
	stop    chan struct{} // closed when nothing more is recorded
	done    chan struct{}
}

// commit is one slot's position on its way into the records.
type commit struct {
	slot     int
	position []byte
	result   chan error
}

func newLogBook(s *Supervisor) *logBook {
	b := &logBook{
		s: s, dir: LogDir(s.set.StateDir), commits: make(chan commit, 64),
		writers: map[int]*logs.Follower{}, stop: make(chan struct{}), done: make(chan struct{}),
	}
	go b.record()
	return b
}

// LogDir is where a pool's logs lie.
func LogDir(stateDir string) string { return filepath.Join(stateDir, "logs") }

// record writes positions; those that came while it wrote go in together.
func (b *logBook) record() {
	defer close(b.done)
	for {
		var batch []commit
		select {
		case c := <-b.commits:
			batch = append(batch, c)
		case <-b.stop:
			return
		}
		for more := true; more; {
			select {
			case c := <-b.commits:
				batch = append(batch, c)
			default:
				more = false
			}
		}
		positions := map[int][]byte{}
		for _, c := range batch {
			positions[c.slot] = c.position
		}
		err := b.s.store.SetLogPositions(positions)
		for _, c := range batch {
			c.result <- err
		}
	}
}

// of returns a slot's log writer.
func (b *logBook) of(slot int) *logs.Follower {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.writers[slot]; w != nil {
		return w
	}
	settings := b.s.set.Logs
	settings.Dir, settings.Name = b.dir, b.s.name(slot)
	var at logs.Position
	if data, err := b.s.store.LogPosition(slot); err != nil || data != nil && json.Unmarshal(data, &at) != nil {
		b.s.set.Logger.Warn("the log's position is lost; it begins anew", "worker", settings.Name, "error", err)
		at = logs.Position{}
	}
	w, err := logs.NewFollower(logs.Options{
		Settings: settings, Recorded: at,
		Commit:  func(p logs.Position) error { return b.commit(slot, p) },
		OnError: func(err error) { b.trouble(settings.Name, err) },
	})
	if err != nil {
		// The settings were checked when the supervisor was made.
		panic(err)
	}
	b.writers[slot] = w
	return w
}

func (b *logBook) commit(slot int, p logs.Position) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	c := commit{slot, data, make(chan error, 1)}
	select {
	case b.commits <- c:
	case <-b.done:
		return errEnding
	}
	select {
	case err := <-c.result:
		return err
	case <-b.done:
		return errEnding
	}
}

func (b *logBook) trouble(name string, err error) {
	if err == nil {
		b.s.set.Logger.Info("the log is written again", "worker", name)
		return
	}
	b.s.set.Logger.Error("the log cannot be written; the worker goes on and its output is read later", "worker", name, "error", err)
}

// hide replaces what a slot's log must not show.
func (b *logBook) hide(slot int, secrets []string) {
	b.of(slot).SetRedactor(secretsOf(secrets))
}

// note adds a line of the pool's own to a slot's log.
func (b *logBook) note(slot int, text string) { b.of(slot).Note(text) }

// close ends the recording. What a log writer has not committed by then is read
// again at the next start.
func (b *logBook) close() {
	close(b.stop)
	<-b.done
}

// closeFiles gives up the logs' files. No log writer runs any more.
func (b *logBook) closeFiles() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.writers {
		w.Close()
	}
}
