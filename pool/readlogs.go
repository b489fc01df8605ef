package pool

import (
	"context"
	"errors"
	"sync"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/worker/logs"
)

// supervisorLog is the name of the supervisor's own log.
const supervisorLog = "supervisor"

// Logs emits log lines: the last ones of each worker in the order of their
// times, then, with Follow, every further one.
func (s *Supervisor) Logs(ctx context.Context, q control.LogQuery, emit func(control.LogLine) error) error {
	names, err := s.logNames(ctx, q)
	if err != nil {
		return err
	}
	queries := map[string][]logs.Query{}
	for _, name := range names {
		queries[name] = []logs.Query{{Tail: q.Tail, From: q.Since}}
	}
	if q.Session != "" {
		if queries, err = s.sessionQueries(q); err != nil {
			return err
		}
	}
	cursors, err := s.tail(queries, q.Cursors, emit)
	if err != nil || !q.Follow {
		return err
	}
	return s.followLogs(ctx, cursors, emit)
}

func (s *Supervisor) logNames(ctx context.Context, q control.LogQuery) ([]string, error) {
	if q.Supervisor {
		return []string{supervisorLog}, nil
	}
	var names []string
	for _, worker := range q.Workers {
		num, err := s.resolve(ctx, worker)
		if err != nil {
			return nil, err
		}
		names = append(names, s.name(num))
	}
	if len(q.Workers) > 0 {
		return names, nil
	}
	err := s.ask(ctx, func() {
		for _, sl := range s.copies() {
			names = append(names, s.name(sl.Num))
		}
	})
	return names, err
}

// sessionQueries chooses the lines written while a session was served, by
// whichever workers served it.
func (s *Supervisor) sessionQueries(q control.LogQuery) (map[string][]logs.Query, error) {
	rows, err := s.store.SessionsOf(q.Session)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, control.Fail(control.CodeNotFound, "no worker of this pool has served "+q.Session, "`pool sessions` lists those it has")
	}
	queries := map[string][]logs.Query{}
	for _, r := range rows {
		queries[r.Worker] = append(queries[r.Worker], logs.Query{Tail: q.Tail, From: r.Began, To: r.Ended})
	}
	return queries, nil
}

// tail emits the chosen lines of all logs merged by time, and returns where
// each log goes on. A log with a cursor goes on there instead.
func (s *Supervisor) tail(queries map[string][]logs.Query, cursors map[string]string, emit func(control.LogLine) error) (map[string]string, error) {
	next := map[string]string{}
	var streams [][]control.LogLine
	for name, wanted := range queries {
		if cursor, ok := cursors[name]; ok {
			next[name] = cursor
			continue
		}
		var lines []control.LogLine
		for _, q := range wanted {
			cursor, err := logs.Read(s.logs.dir, name, q, func(l logs.Line) error {
				lines = append(lines, wireLine(name, l))
				return nil
			})
			if err != nil {
				return nil, err
			}
			next[name] = cursor
		}
		streams = append(streams, lines)
	}
	return next, merge(streams, emit)
}

// merge emits lines of several logs in the order of their times.
func merge(streams [][]control.LogLine, emit func(control.LogLine) error) error {
	for {
		first := -1
		for i, lines := range streams {
			if len(lines) > 0 && (first < 0 || lines[0].At.Before(streams[first][0].At)) {
				first = i
			}
		}
		if first < 0 {
			return nil
		}
		if err := emit(streams[first][0]); err != nil {
			return err
		}
		streams[first] = streams[first][1:]
	}
}

func wireLine(name string, l logs.Line) control.LogLine {
	return control.LogLine{Worker: name, At: l.At, Text: l.Text, Cursor: l.Cursor}
}

// followLogs emits further lines of each log until ctx ends, emit fails or the
// supervisor does.
func (s *Supervisor) followLogs(ctx context.Context, cursors map[string]string, emit func(control.LogLine) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.ctx, func() { cancel(errEnding) })
	defer stop()
	var one sync.Mutex // emit is called by one at a time
	var all sync.WaitGroup
	for name, cursor := range cursors {
		all.Go(func() {
			err := logs.Follow(ctx, s.logs.dir, name, cursor, func(l logs.Line) error {
				one.Lock()
				defer one.Unlock()
				return emit(wireLine(name, l))
			})
			cancel(err)
		})
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
