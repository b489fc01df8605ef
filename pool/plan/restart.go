package plan

import (
	"fmt"
	"math"
	"time"
)

// failuresKept is how many failure times a slot carries: as many as make it
// crash-looping within an hour.
const failuresKept = 5

// crowdSpread is added to the window of first restarts per slot that failed
// lately, when many fail together.
const crowdSpread = 200 * time.Millisecond

// Delay returns how long a slot waits before its next start, given how many
// failures were remembered before this one. Roll is a random draw in [0,1);
// crowd is how many slots failed within 5 s when that is more than a quarter
// of the pool, else 0. The first failure restarts at once, spread only in a
// crowd; each further one waits min(max, initial × 2^(before − 1)) ± jitter.
func Delay(p Policy, before int, roll float64, crowd int) time.Duration {
	if before == 0 {
		return time.Duration(roll * float64(min(p.Max, time.Duration(crowd)*crowdSpread)))
	}
	delay := p.Max
	if before <= 32 && p.Initial<<(before-1) > 0 {
		delay = min(p.Max, p.Initial<<(before-1))
	}
	return time.Duration(float64(delay) * (1 + p.Jitter*(2*roll-1)))
}

// fail remembers a failure and sets the time of the next start.
func (s *Slot) fail(p Policy, reason string, roll float64, crowd int, now time.Time) {
	before := s.Failures
	s.Failures++
	s.Owed = true
	s.FailedAt = append(s.FailedAt[max(0, len(s.FailedAt)-failuresKept+1):len(s.FailedAt):len(s.FailedAt)], now)
	if p.Facts.APIAnswers {
		s.FailuresHere++
	}
	delay := Delay(p, before, roll, crowd)
	if s.Failures >= p.CrashLoopAfter {
		delay = max(delay, Delay(p, math.MaxInt, roll, 0))
	}
	s.NextStart = now.Add(delay)
	if delay > 0 {
		reason = fmt.Sprintf("%s; starts again in %s", reason, Span(delay))
	}
	s.enter(Backoff, reason, now)
}

// forget drops remembered failures once the worker has run long enough.
func (s *Slot) forget(p Policy, now time.Time) {
	if s.Alive && s.Failures > 0 && now.Sub(s.Started) >= p.ResetAfter {
		s.Failures, s.FailuresHere = 0, 0
	}
}

// retryCall sets when a provider call that failed is tried again: 1 s doubling
// to a minute, ± 25 % so that slots do not call in step, or when the provider
// said.
func (s *Slot) retryCall(after time.Duration, roll float64, now time.Time) {
	wait := min(time.Minute, time.Second<<min(s.CallFailures, 6))
	wait = time.Duration(float64(wait) * (0.75 + roll/2))
	s.CallFailures++
	s.Retry = now.Add(max(wait, after))
}

// ExitReason says in words how a worker ended after living so long.
func ExitReason(e Exit, lived time.Duration) string {
	switch {
	case !e.Known:
		return fmt.Sprintf("ended after %s, exit code lost", Span(lived))
	case e.OOM:
		return fmt.Sprintf("out of memory after %s", Span(lived))
	case e.Signal != 0:
		return fmt.Sprintf("killed by signal %d after %s", e.Signal, Span(lived))
	default:
		return fmt.Sprintf("exit code %d after %s", e.Code, Span(lived))
	}
}
