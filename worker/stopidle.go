package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Claims is what Devin Cloud said about one acceptor id.
type Claims struct {
	Session string    // the session it holds a claim for; empty: none
	AsOf    time.Time // when the question was sent, by this host's clock
}

// ClaimsReader reads the claims of the slot whose worker is to stop. An error,
// or an answer from before, means that nothing is known.
type ClaimsReader interface {
	ReadClaims(ctx context.Context) (Claims, error)
}

// Outcome is what became of an attempt to stop an idle worker.
type Outcome string

const (
	OutcomeStopped Outcome = "stopped" // known dead
	OutcomeBusy    Outcome = "busy"    // it serves Session and goes on
	OutcomeUnknown Outcome = "unknown" // it goes on, or its state must be looked up
)

// StopResult is an attempt's outcome with its reason.
type StopResult struct {
	Outcome Outcome
	// Session is the one being served when busy. When stopped it is one that
	// the worker claimed between our look and the signal: it had the grace
	// period, and its claim is to be released with an event.
	Session string
	Stopped Stopped // when stopped
	Reason  string
}

const (
	// settle is how much newer than the STOP an answer must be: a claim that
	// was on its way then is visible by now (design §4).
	settle       = 2 * time.Second
	readEvery    = time.Second
	readLimit    = 15 * time.Second // for a first fresh answer, while the worker stands still
	resumeLimit  = 5 * time.Second
	resumeTrials = 3
)

// StopIdle stops a worker only if it serves no session (design §4). It lets
// the tree stand still, asks for claims until an answer is surely newer, and
// then stops the worker or lets it go on. Whatever happens it does not leave a
// living worker standing still. Where the tree cannot stand still it signals,
// looks again, and leaves a session that slipped in the grace period. The
// error says why the outcome is unknown and is nil otherwise.
func StopIdle(ctx context.Context, proc providers.Process, grace time.Duration, claims ClaimsReader) (StopResult, error) {
	if exit, ended, _ := ends(ctx, proc, lookFirst); ended {
		return stopped(Stopped{exit, EndedBefore}, ""), nil
	}
	attempt := idleStop{proc: proc, grace: grace, claims: claims}
	defer attempt.resume(ctx)
	err := proc.Signal(ctx, providers.STOP)
	if providers.Is(err, providers.Invalid) {
		attempt.resumed = true // it never stood still
		return attempt.withoutPause(ctx)
	}
	if err != nil {
		return unknown(fmt.Errorf("make the worker stand still: %w", err))
	}
	return attempt.whilePaused(ctx)
}

type idleStop struct {
	proc    providers.Process
	grace   time.Duration
	claims  ClaimsReader
	resumed bool
}

// whilePaused decides and acts while the tree stands still.
func (a *idleStop) whilePaused(ctx context.Context) (StopResult, error) {
	session, err := a.look(ctx, time.Now())
	if err != nil {
		return unknown(fmt.Errorf("whether it is idle is not known: %w", err))
	}
	if session != "" {
		if err := a.resume(ctx); err != nil {
			return StopResult{Outcome: OutcomeBusy, Session: session, Reason: "serves " + session}, err
		}
		return StopResult{Outcome: OutcomeBusy, Session: session, Reason: "serves " + session}, nil
	}
	done, err := finish(ctx, a.proc, a.grace)
	if err != nil {
		return unknown(err)
	}
	a.resumed = true // dead
	return stopped(done, ""), nil
}

// look asks for claims until an answer is settle newer than since, or shows a
// session.
func (a *idleStop) look(ctx context.Context, since time.Time) (session string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	for {
		answer, err := a.claims.ReadClaims(ctx)
		if err != nil {
			return "", err
		}
		if answer.Session != "" && !answer.AsOf.Before(since) {
			return answer.Session, nil
		}
		if !answer.AsOf.Before(since.Add(settle)) {
			return "", nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no fresh answer within %s: %w", readLimit, ctx.Err())
		case <-time.After(readEvery):
		}
	}
}

// withoutPause signals first. The process may claim until it has ended, so the
// last look comes after that.
func (a *idleStop) withoutPause(ctx context.Context) (StopResult, error) {
	// Without a pause a look beforehand makes the gap as small as it can be.
	before, err := a.claims.ReadClaims(ctx)
	if err != nil {
		return unknown(fmt.Errorf("whether it is idle is not known: %w", err))
	}
	if before.Session != "" {
		return StopResult{Outcome: OutcomeBusy, Session: before.Session, Reason: "serves " + before.Session}, nil
	}
	done, err := finish(ctx, a.proc, a.grace)
	if err != nil {
		return unknown(err)
	}
	session, err := a.look(ctx, time.Now())
	result := stopped(done, session)
	if err != nil {
		result.Reason += "; whether a session slipped in is not known: " + err.Error()
	}
	return result, nil
}

// resume lets the tree go on, also when ctx has ended. It is called in every
// case in which the worker may live.
func (a *idleStop) resume(ctx context.Context) error {
	if a.resumed {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var failed error
	for trial := range resumeTrials {
		if trial > 0 {
			time.Sleep(readEvery)
		}
		limited, cancel := context.WithTimeout(ctx, resumeLimit)
		err := a.proc.Signal(limited, providers.CONT)
		cancel()
		if err == nil {
			a.resumed = true
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return fmt.Errorf("let the worker go on: %w", failed)
}

func unknown(err error) (StopResult, error) {
	return StopResult{Outcome: OutcomeUnknown, Reason: err.Error()}, err
}

func stopped(done Stopped, session string) StopResult {
	reason := "idle; it " + string(done.Ending)
	if session != "" {
		reason = fmt.Sprintf("it claimed %s between the look and the signal, and %s", session, done.Ending)
	}
	return StopResult{Outcome: OutcomeStopped, Session: session, Stopped: done, Reason: reason}
}
