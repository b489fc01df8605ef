package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Decision is one thing the pool decides for a slot: fold Event into it.
type Decision struct {
	Num   int
	New   bool // the slot does not exist yet
	Event Event
}

// Pool decides which slots should exist, which may make a sandbox now, and
// which are replaced, within the budgets.
func Pool(slots []Slot, desired int, p Policy, now time.Time) []Decision {
	var kept, leaving []Slot
	for _, s := range slots {
		if s.Goal.Kind == Retire {
			leaving = append(leaving, s)
		} else {
			kept = append(kept, s)
		}
	}
	var do []Decision
	if missing := desired - len(kept); missing > 0 {
		do = append(do, grow(slots, leaving, missing)...)
	} else if missing < 0 {
		do = append(do, shrink(kept, -missing, desired, p, now)...)
		kept = without(kept, do)
	}
	do = append(do, grant(kept, p)...)
	return append(do, replace(kept, p)...)
}

// without returns the slots that nothing has been decided for yet.
func without(slots []Slot, decided []Decision) []Slot {
	return slices.DeleteFunc(slices.Clone(slots), func(s Slot) bool {
		return slices.ContainsFunc(decided, func(d Decision) bool { return d.Num == s.Num })
	})
}

// grow takes back slots that still drain before it makes new ones.
func grow(slots, leaving []Slot, missing int) []Decision {
	var do []Decision
	slices.SortFunc(leaving, func(a, b Slot) int { return cmp.Compare(a.Num, b.Num) })
	for _, s := range leaving {
		if missing > 0 && s.canReturn() {
			do = append(do, Decision{Num: s.Num, Event: Asked{Goal{Kind: Serve, Why: "scaled up: taken back"}}})
			missing--
		}
	}
	taken := map[int]bool{}
	for _, s := range slots {
		taken[s.Num] = true
	}
	for num := 0; missing > 0; num++ {
		if !taken[num] {
			do = append(do, Decision{Num: num, New: true})
			missing--
		}
	}
	return do
}

// canReturn reports whether a slot on its way out still has what it needs to
// serve again.
func (s Slot) canReturn() bool {
	return s.Goal.Kind == Retire && s.Alive && s.State == Draining
}

func shrink(kept []Slot, surplus, desired int, p Policy, now time.Time) []Decision {
	order := slices.Clone(kept)
	slices.SortFunc(order, func(a, b Slot) int {
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()),
			b.SessionSince.Compare(a.SessionSince)*boolInt(a.Session != "" && b.Session != ""),
			cmp.Compare(b.Num, a.Num))
	})
	var do []Decision
	for _, s := range order[:surplus] {
		do = append(do, Decision{Num: s.Num, Event: Asked{Goal{
			Kind: Retire, Until: now.Add(p.DrainLimit), Why: fmt.Sprintf("scaled down to %d", desired),
		}}})
	}
	return do
}

// rank orders slots for scaling down: those without a worker first, then idle
// ones, then busy ones. One that nobody has looked at yet may be busy.
func (s Slot) rank() int {
	switch {
	case s.Sandbox != "" && !s.Found:
		return 2
	case !s.Alive:
		return 0
	case s.Session == "":
		return 1
	default:
		return 2
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Provisioning reports whether the slot is between absent and its first start.
func (s Slot) Provisioning() bool {
	switch s.State {
	case Absent:
		return s.Granted && s.Goal.Kind == Serve && !s.Owed
	case Creating, Preparing:
		return true
	case Starting:
		return !s.Alive
	}
	return false
}

// grant lets absent slots make a sandbox while fewer than parallel_starts are
// at it.
func grant(kept []Slot, p Policy) []Decision {
	if p.Facts.TokenRejected != "" {
		return nil
	}
	room := p.ParallelStarts
	for _, s := range kept {
		if s.Provisioning() {
			room--
		}
	}
	var do []Decision
	for _, s := range kept {
		if room > 0 && s.State == Absent && !s.Granted && s.Goal.Kind != Rest {
			do = append(do, Decision{Num: s.Num, Event: Granted{}})
			room--
		}
	}
	return do
}

// replace gives a new sandbox to slots whose worker failed replace_after times
// in a row in the one they have, max_unavailable at a time. A slot counts until
// its next worker has been launched.
func replace(kept []Slot, p Policy) []Decision {
	room := p.MaxUnavailable
	for _, s := range kept {
		if s.Goal.Kind == Replace || s.Replacing {
			room--
		}
	}
	var do []Decision
	for _, s := range kept {
		if room > 0 && !s.Replacing && s.State == Backoff && s.Goal.Kind == Serve && s.Sandbox != "" && s.FailuresHere >= p.ReplaceAfter {
			do = append(do, Decision{Num: s.Num, Event: Asked{Goal{
				Kind: Replace, Why: fmt.Sprintf("%d failures in a row in this sandbox", s.FailuresHere),
			}}})
			room--
		}
	}
	return do
}
