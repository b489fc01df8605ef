// Package state keeps what must survive a crash of the supervisor, in one
// SQLite file: slots with their intents, the pool's own settings, events,
// sessions served and log positions. Losing the file loses history, not
// sandboxes: those are found by their labels.
package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite" // registers the driver, and names its errors
)

// keptEvents bounds the events table; older ones are dropped at the start and
// every keptEvents/10 new ones.
const keptEvents = 20_000

// Store is an open state file. Its methods are safe for concurrent use; each
// is one transaction.
type Store struct {
	db    *sql.DB
	added int // events since the table was last trimmed
}

// FutureError says that the file was written by a newer program.
type FutureError struct {
	Path       string
	Have, Know int
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("%s was written by a newer version of pool (schema %d, this one knows %d); upgrade pool, or move the file away to begin without its history", e.Path, e.Have, e.Know)
}

// Open opens or makes the state file, 0600, and brings its schema forward.
// A newer schema is a *FutureError and leaves the file as it is.
func Open(path string) (*Store, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	file.Close()
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: abs, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(ON)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	db.SetMaxOpenConns(1)
	store := &Store{db: db}
	if err := store.migrate(path); err != nil {
		db.Close()
		return nil, err
	}
	return store, nil
}

func (s *Store) migrate(path string) error {
	var have int
	if err := s.db.QueryRow("PRAGMA user_version").Scan(&have); err != nil {
		return fmt.Errorf("%s is not a state file of pool, or is damaged (%w); move it away to begin without its history", path, err)
	}
	if have > len(schema) {
		return &FutureError{Path: path, Have: have, Know: len(schema)}
	}
	for version := have; version < len(schema); version++ {
		step := fmt.Sprintf("%s; PRAGMA user_version = %d", schema[version], version+1)
		if err := s.inTx(func(tx *sql.Tx) error { _, err := tx.Exec(step); return err }); err != nil {
			return fmt.Errorf("bring %s to schema %d: %w", path, version+1, err)
		}
	}
	return nil
}

// Close writes the log back into the file and closes it.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) inTx(do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// IsFull reports whether err says that the disk, or the quota, is full.
func IsFull(err error) bool {
	var e *sqlite.Error
	const sqliteFull = 13
	return errors.As(err, &e) && e.Code()&0xff == sqliteFull
}

// Record is one slot's record: JSON, opaque to this package.
type Record struct {
	Num  int
	JSON []byte
}

// Change is what one decision writes. Everything in it is written or nothing.
type Change struct {
	Slots    []Record
	Drop     []int // slots that are gone for good
	Settings map[string]string
	Events   []Event
	Began    []Session // sessions a worker began to serve
	Ended    []Session // their ends: ID, Worker, Ended and Ending
}

// Event is one line of history. IDs grow.
type Event struct {
	ID       int64
	At       time.Time
	Worker   string
	Kind     string
	Was, Now string
	Reason   string
	Fields   map[string]string
}

// Session is one session served by one worker. Ended is zero while it runs.
type Session struct {
	ID, Worker   string
	Began, Ended time.Time
	Ending       string
}

// Write writes a change and returns its events with their ids. Only the loop
// calls it.
func (s *Store) Write(c Change) ([]Event, error) {
	err := s.inTx(func(tx *sql.Tx) error {
		for _, r := range c.Slots {
			if _, err := tx.Exec("INSERT INTO slots VALUES (?, ?) ON CONFLICT (num) DO UPDATE SET record = excluded.record", r.Num, string(r.JSON)); err != nil {
				return err
			}
		}
		for _, num := range c.Drop {
			if _, err := tx.Exec("DELETE FROM slots WHERE num = ?", num); err != nil {
				return err
			}
		}
		for key, value := range c.Settings {
			if _, err := tx.Exec("INSERT INTO pool VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value); err != nil {
				return err
			}
		}
		if err := writeSessions(tx, c); err != nil {
			return err
		}
		return writeEvents(tx, c.Events)
	})
	if err != nil {
		return nil, fmt.Errorf("write the records: %w", err)
	}
	s.added += len(c.Events)
	if s.added > keptEvents/10 {
		s.added = 0
		// Trimming is housekeeping: a failure shows at the next real write.
		_, _ = s.db.Exec("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", keptEvents)
		_, _ = s.db.Exec("DELETE FROM sessions WHERE num <= (SELECT max(num) FROM sessions) - ?", keptEvents)
	}
	return c.Events, nil
}

func writeSessions(tx *sql.Tx, c Change) error {
	for _, e := range c.Ended {
		if _, err := tx.Exec("UPDATE sessions SET ended = ?, ending = ? WHERE worker = ? AND id = ? AND ended = 0", e.Ended.UnixNano(), e.Ending, e.Worker, e.ID); err != nil {
			return err
		}
	}
	for _, b := range c.Began {
		if _, err := tx.Exec("INSERT INTO sessions (id, worker, began, ended, ending) VALUES (?, ?, ?, 0, '')", b.ID, b.Worker, b.Began.UnixNano()); err != nil {
			return err
		}
	}
	return nil
}

func writeEvents(tx *sql.Tx, events []Event) error {
	for i := range events {
		e := &events[i]
		fields, err := json.Marshal(e.Fields)
		if err != nil {
			return err
		}
		result, err := tx.Exec("INSERT INTO events (at, worker, kind, was, now, reason, fields) VALUES (?, ?, ?, ?, ?, ?, ?)",
			e.At.UnixNano(), e.Worker, e.Kind, e.Was, e.Now, e.Reason, string(fields))
		if err != nil {
			return err
		}
		if e.ID, err = result.LastInsertId(); err != nil {
			return err
		}
	}
	return nil
}
