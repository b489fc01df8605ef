package state

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Slots returns the records of all slots, by number.
func (s *Store) Slots() ([]Record, error) {
	return collect(s, "SELECT num, record FROM slots ORDER BY num", func(rows *sql.Rows) (r Record, err error) {
		var text string
		err = rows.Scan(&r.Num, &text)
		r.JSON = []byte(text)
		return r, err
	})
}

// Settings returns the pool's own settings.
func (s *Store) Settings() (map[string]string, error) {
	type pair struct{ key, value string }
	pairs, err := collect(s, "SELECT key, value FROM pool", func(rows *sql.Rows) (p pair, err error) {
		err = rows.Scan(&p.key, &p.value)
		return p, err
	})
	settings := map[string]string{}
	for _, p := range pairs {
		settings[p.key] = p.value
	}
	return settings, err
}

// Events returns the newest limit events with an id above after, oldest
// first; of one worker unless worker is empty. A limit of 0 is no limit.
func (s *Store) Events(worker string, after int64, limit int) ([]Event, error) {
	if limit <= 0 {
		limit = -1
	}
	return collect(s, `
SELECT id, at, worker, kind, was, now, reason, fields FROM (
  SELECT * FROM events WHERE id > ? AND (? = '' OR worker = ?) ORDER BY id DESC LIMIT ?
) ORDER BY id`, scanEvent, after, worker, worker, limit)
}

func scanEvent(rows *sql.Rows) (e Event, err error) {
	var at int64
	var fields string
	if err := rows.Scan(&e.ID, &at, &e.Worker, &e.Kind, &e.Was, &e.Now, &e.Reason, &fields); err != nil {
		return e, err
	}
	e.At = time.Unix(0, at)
	return e, json.Unmarshal([]byte(fields), &e.Fields)
}

// Sessions returns the newest limit sessions served, newest first. A limit of
// 0 is no limit.
func (s *Store) Sessions(limit int) ([]Session, error) {
	if limit <= 0 {
		limit = -1
	}
	return collect(s, "SELECT id, worker, began, ended, ending FROM sessions ORDER BY num DESC LIMIT ?", scanSession, limit)
}

// SessionsOf returns what is known of one session, oldest first: a session
// that slept and woke may have been with several workers.
func (s *Store) SessionsOf(id string) ([]Session, error) {
	return collect(s, "SELECT id, worker, began, ended, ending FROM sessions WHERE id = ? ORDER BY num", scanSession, id)
}

func scanSession(rows *sql.Rows) (x Session, err error) {
	var began, ended int64
	err = rows.Scan(&x.ID, &x.Worker, &began, &ended, &x.Ending)
	x.Began = time.Unix(0, began)
	if ended != 0 {
		x.Ended = time.Unix(0, ended)
	}
	return x, err
}

// LogPosition returns the recorded position of a slot's log; nil when none.
func (s *Store) LogPosition(slot int) ([]byte, error) {
	var text string
	err := s.db.QueryRow("SELECT position FROM logs WHERE slot = ?", slot).Scan(&text)
	if err == sql.ErrNoRows {
		return nil, nil
	}
	return []byte(text), err
}

// SetLogPositions records where the logs of some slots have got to.
func (s *Store) SetLogPositions(positions map[int][]byte) error {
	return s.inTx(func(tx *sql.Tx) error {
		for slot, position := range positions {
			if _, err := tx.Exec("INSERT INTO logs VALUES (?, ?) ON CONFLICT (slot) DO UPDATE SET position = excluded.position", slot, string(position)); err != nil {
				return fmt.Errorf("record a log position: %w", err)
			}
		}
		return nil
	})
}

// collect runs a query and scans its rows.
func collect[T any](s *Store, query string, scan func(*sql.Rows) (T, error), args ...any) ([]T, error) {
	rows, err := s.db.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("read the records: %w", err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read the records: %w", err)
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
