package control

import (
	"context"
	"io"
)

// Backend is what the server serves: the supervisor. Errors that are a
// *Error keep their code and hint on the wire; any other is "internal".
//
// emit of Events and Logs waits for its reader: for a follower at most
// Options.Stall, then it fails. So it is called with no lock held, and never
// on the goroutine of the loop. emit of Watch never waits.
type Backend interface {
	Pool(ctx context.Context) (Pool, error)
	// Watch calls emit with the pool at once and after each change, at most
	// a few times a second, until ctx ends or emit fails.
	Watch(ctx context.Context, emit func(Pool) error) error
	Events(ctx context.Context, q EventQuery, emit func(Event) error) error
	Sessions(ctx context.Context, limit int) ([]ServedSession, error)
	Logs(ctx context.Context, q LogQuery, emit func(LogLine) error) error
	Scale(ctx context.Context, r ScaleRequest) (ScaleResult, error)
	Restart(ctx context.Context, worker string, a WorkerAction) (Done, error)
	Drain(ctx context.Context, worker string, a WorkerAction) (Done, error)
	Undrain(ctx context.Context, worker string) (Done, error)
	// Down begins the end and returns at once; the socket closes when it is done.
	Down(ctx context.Context, r DownRequest) (Done, error)
	// Exec runs to the command's end and returns its exact exit code. It ends
	// the command when ctx ends. It must not wait for the end of Stdin once the
	// command has ended: a client may leave it open.
	Exec(ctx context.Context, worker string, r ExecRequest, s ExecStreams) (int, error)
}

// ExecStreams are the far ends of an exec. Stdin is nil when the request wants
// none. Resize is closed at the end.
type ExecStreams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan Size
}
