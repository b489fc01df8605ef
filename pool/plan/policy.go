package plan

import (
	"fmt"
	"time"
)

// Policy is what the operator asked for, and what holds for the whole pool
// right now.
type Policy struct {
	Initial        time.Duration // first delay between restarts
	Max            time.Duration // longest delay
	Jitter         float64       // ± share of a delay, 0 to 1
	ResetAfter     time.Duration // unbroken running after which failures are forgotten
	CrashLoopAfter int           // remembered failures that mark a slot crash-looping
	ReplaceAfter   int           // failures in a row in one sandbox that replace it
	StartWindow    time.Duration // a new worker must live so long
	StopGrace      time.Duration // between TERM and KILL
	DrainLimit     time.Duration // longest wait for a session
	ClaimLife      time.Duration // facts outposts.md 1.8: about 5 minutes
	ParallelStarts int           // slots that may be provisioning at once
	MaxUnavailable int           // slots that may be out of service for replacement at once
	ConfigHash     string        // what new sandboxes are made from

	Facts Facts
}

// Facts hold for the whole pool right now.
type Facts struct {
	// TokenRejected is Devin Cloud's word on the token, empty while accepted.
	TokenRejected string
	// APIAnswers says that the Fleet API answered lately. While it does not,
	// nothing that depends on idleness is decided.
	APIAnswers bool
	// NoAPI says that the pool runs without the session view by choice.
	NoAPI bool
}

// Span writes a duration as people do: 5 s, 3 min, 2 h 10 min, 4 d.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		if m := int(d.Minutes()) % 60; m != 0 {
			return fmt.Sprintf("%d h %d min", int(d.Hours()), m)
		}
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d", int(d.Hours())/24)
	}
}
