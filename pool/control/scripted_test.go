package control

import "context"

// scripted is a backend that answers at once and ends its streams.
type scripted struct {
	pool     Pool
	events   []Event
	lines    []LogLine
	sessions []ServedSession
	err      error // of every call, after what it emits
	panics   bool
}

func (s *scripted) Pool(context.Context) (Pool, error) {
	if s.panics {
		panic("a mistake")
	}
	return s.pool, s.err
}

func (s *scripted) Watch(_ context.Context, emit func(Pool) error) error {
	if s.err != nil {
		return s.err
	}
	return emit(s.pool)
}

func (s *scripted) Events(_ context.Context, _ EventQuery, emit func(Event) error) error {
	return emitAll(s.events, emit, s.err)
}

func (s *scripted) Logs(_ context.Context, _ LogQuery, emit func(LogLine) error) error {
	return emitAll(s.lines, emit, s.err)
}

func emitAll[T any](list []T, emit func(T) error, last error) error {
	for _, v := range list {
		if err := emit(v); err != nil {
			return err
		}
	}
	return last
}

func (s *scripted) Sessions(context.Context, int) ([]ServedSession, error) { return s.sessions, s.err }

func (s *scripted) Scale(_ context.Context, r ScaleRequest) (ScaleResult, error) {
	return ScaleResult{Was: 1, Desired: r.Workers, Changed: true, Detail: "scaled"}, s.err
}

func (s *scripted) Restart(context.Context, string, WorkerAction) (Done, error) {
	return Done{Detail: "restarts"}, s.err
}

func (s *scripted) Drain(context.Context, string, WorkerAction) (Done, error) {
	return Done{Detail: "drains"}, s.err
}

func (s *scripted) Undrain(context.Context, string) (Done, error) {
	return Done{Detail: "stays"}, s.err
}

func (s *scripted) Down(context.Context, DownRequest) (Done, error) {
	return Done{Detail: "goes"}, s.err
}

func (s *scripted) Exec(context.Context, string, ExecRequest, ExecStreams) (int, error) {
	return 0, s.err
}
