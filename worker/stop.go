package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Ending is how a worker that was to stop came to its end.
type Ending string

const (
	EndedBefore Ending = "had ended before"
	EndedItself Ending = "ended within the grace period"
	WasKilled   Ending = "was killed after the grace period"
)

// Stopped is a worker known to be dead.
type Stopped struct {
	providers.Exit
	Ending Ending
}

const (
	// lookFirst is how long a worker has to prove that it is dead already.
	lookFirst  = 100 * time.Millisecond
	retryEvery = time.Second
)

// Stop ends a process: TERM to the whole tree, CONT in case it was stopped,
// the grace period, KILL, and then as long as it takes. A ctx that ends leaves
// things as they are; the error is then class Unknown, as is any other that
// leaves the process's fate open.
func Stop(ctx context.Context, proc providers.Process, grace time.Duration) (Stopped, error) {
	if exit, ended, _ := ends(ctx, proc, lookFirst); ended {
		return Stopped{exit, EndedBefore}, nil
	}
	return finish(ctx, proc, grace)
}

// finish is Stop for a process that lived a moment ago.
func finish(ctx context.Context, proc providers.Process, grace time.Duration) (Stopped, error) {
	deadline := time.Now().Add(grace)
	for {
		err := terminate(ctx, proc)
		wait := time.Until(deadline)
		if err != nil {
			wait = min(wait, retryEvery) // not told yet, perhaps
		}
		if exit, ended, _ := ends(ctx, proc, wait); ended {
			return Stopped{exit, EndedItself}, nil
		}
		if ctx.Err() != nil {
			return Stopped{}, unknownStop(ctx.Err())
		}
		if !time.Now().Before(deadline) {
			return kill(ctx, proc)
		}
	}
}

// terminate asks the tree to end. A stopped process gets its TERM only with
// the CONT; where CONT is impossible nothing was stopped.
func terminate(ctx context.Context, proc providers.Process) error {
	if err := proc.Signal(ctx, providers.TERM); err != nil {
		return err
	}
	if err := proc.Signal(ctx, providers.CONT); err != nil && !providers.Is(err, providers.Invalid) {
		return err
	}
	return nil
}

func kill(ctx context.Context, proc providers.Process) (Stopped, error) {
	for {
		err := proc.Signal(ctx, providers.KILL)
		exit, ended, waitErr := ends(ctx, proc, 10*retryEvery)
		if ended {
			return Stopped{exit, WasKilled}, nil
		}
		if ctx.Err() != nil {
			if err == nil {
				err = waitErr
			}
			if err == nil {
				err = ctx.Err()
			}
			return Stopped{}, unknownStop(err)
		}
	}
}

func unknownStop(cause error) error {
	return &providers.Error{
		Class: providers.Unknown, Op: "stop the worker", Err: fmt.Errorf("whether it ended is not known: %w", cause),
		Hint: "its state is looked up before anything else happens to it",
	}
}

// ends waits up to d for the end of a process. Wait's own errors say nothing
// about the process, so it is asked again until the time is over; the last is
// returned.
func ends(ctx context.Context, proc providers.Process, d time.Duration) (exit providers.Exit, ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		exit, err = proc.Wait(ctx)
		if err == nil {
			return exit, true, nil
		}
		select {
		case <-ctx.Done():
			return providers.Exit{}, false, err
		case <-time.After(retryEvery / 4):
		}
	}
}
