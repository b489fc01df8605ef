package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// openAfter is how long a stream waits for its first item before it says 200
// without one: until then a failure can still be a proper status.
const openAfter = 200 * time.Millisecond

// sse writes server-sent events. A reader that leaves its stream unread for
// longer than stall is cut off; it comes back with its cursor.
type sse struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	stall time.Duration

	mu   sync.Mutex
	open bool
	err  error // the first failed write; no other follows it
}

func newSSE(w http.ResponseWriter, stall time.Duration) *sse {
	return &sse{w: w, ctl: http.NewResponseController(w), stall: stall}
}

func (s *sse) begin() {
	if s.open {
		return
	}
	s.open = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-store")
	s.w.WriteHeader(http.StatusOK)
}

// write sends raw bytes, within the stall time.
func (s *sse) write(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.begin()
	s.ctl.SetWriteDeadline(time.Now().Add(s.stall)) // unsupported by test recorders only
	if _, s.err = s.w.Write(p); s.err == nil {
		s.err = s.ctl.Flush()
	}
	return s.err
}

// send sends one event; an id of 0 is left out.
func (s *sse) send(name string, id int64, v any) error {
	data, err := json.Marshal(v) // holds no newline
	if err != nil {
		return err
	}
	text := "event: " + name + "\n"
	if id != 0 {
		text += "id: " + strconv.FormatInt(id, 10) + "\n"
	}
	return s.write([]byte(text + "data: " + string(data) + "\n\n"))
}

// keepAlive opens the stream when its first item takes long, and shows that
// it lives, until ctx ends. A reader that is gone ends the request.
func (s *sse) keepAlive(ctx context.Context, every time.Duration, gone context.CancelFunc) {
	t := time.NewTimer(openAfter)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if s.write([]byte(": keepalive\n\n")) != nil {
				gone()
				return
			}
			t.Reset(every)
		}
	}
}

// stream runs produce with a live event stream. An error before the first
// item is the answer's status, later it is an event "problem".
func (s *server) stream(w http.ResponseWriter, r *http.Request, produce func(context.Context, *sse) error) {
	ctx, cancel := context.WithCancel(r.Context())
	out := newSSE(w, s.options.Stall)
	var alive sync.WaitGroup
	alive.Go(func() { out.keepAlive(ctx, s.options.Keepalive, cancel) })
	err := produce(ctx, out)
	over := ctx.Err() != nil
	cancel()
	alive.Wait()
	// The connection may serve another request, with no limit of ours on it.
	defer out.ctl.SetWriteDeadline(time.Time{})
	if err == nil || over {
		return
	}
	if !out.open {
		s.fail(w, err)
		return
	}
	out.send("problem", 0, problemOf(err))
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func(ctx context.Context, out *sse) error {
		return conflate(ctx, s.backend.Watch, func(p Pool) error { return out.send("pool", 0, whole(p)) })
	})
}

// conflate runs watch without ever holding it up: while send is busy, only
// the newest pool is kept.
func conflate(ctx context.Context, watch func(context.Context, func(Pool) error) error, send func(Pool) error) error {
	ctx, cancel := context.WithCancel(ctx)
	newest := make(chan Pool, 1)
	var broken error
	var sender sync.WaitGroup
	sender.Go(func() {
		for p := range newest {
			if broken = send(p); broken != nil {
				cancel()
				return
			}
		}
	})
	err := watch(ctx, func(p Pool) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for {
			select {
			case newest <- p:
				return nil
			default:
			}
			select {
			case <-newest:
			default:
			}
		}
	})
	close(newest)
	sender.Wait()
	cancel()
	if broken != nil {
		return broken
	}
	return err
}

func (s *server) events(w http.ResponseWriter, r *http.Request) {
	q, err := eventQueryOf(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if q.Follow {
		s.stream(w, r, func(ctx context.Context, out *sse) error {
			return s.backend.Events(ctx, q, func(e Event) error { return out.send("event", e.ID, e) })
		})
		return
	}
	list := []Event{}
	err = s.backend.Events(r.Context(), q, func(e Event) error {
		list = append(list, e)
		return nil
	})
	s.replyOr(w, list, err)
}

func (s *server) logs(w http.ResponseWriter, r *http.Request) {
	q, err := logQueryOf(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if q.Follow {
		s.stream(w, r, func(ctx context.Context, out *sse) error {
			return s.backend.Logs(ctx, q, func(l LogLine) error { return out.send("log", 0, l) })
		})
		return
	}
	s.logLines(w, r, q)
}

// logRow is one line of a log answer: a log line or, as the last, the problem
// that kept it from being whole.
type logRow struct {
	*LogLine
	Problem *Problem `json:"problem,omitempty"`
}

// logLines answers with one JSON object a line. Nothing is gathered: the log
// may be long. The reader sets the pace and its end ends the reading; no
// deadline, since a person with a pager may think for an hour.
func (s *server) logLines(w http.ResponseWriter, r *http.Request, q LogQuery) {
	out := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(out)
	begun := false
	begin := func() {
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			begun = true
		}
	}
	err := s.backend.Logs(r.Context(), q, func(l LogLine) error {
		begin()
		return enc.Encode(logRow{LogLine: &l})
	})
	if err != nil && !begun {
		s.fail(w, err)
		return
	}
	begin()
	if err != nil {
		p := problemOf(err)
		err = enc.Encode(logRow{Problem: &p})
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		panic(http.ErrAbortHandler) // cut, so that nobody takes it for whole
	}
}
