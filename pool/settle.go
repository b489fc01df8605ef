package pool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/pool/state"
)

// settle folds events into a slot, decides, records and acts.
func (s *Supervisor) settle(sl *slot, events ...plan.Event) {
	now, policy := time.Now(), s.policy()
	before := sl.Slot
	folded := before
	for _, e := range events {
		folded = plan.After(folded, e, policy, now)
	}
	next, do := plan.Next(folded, policy, now)
	if err := s.record(sl, before, next, now); err != nil {
		next, do = s.withoutRecord(folded, next, do)
		sl.Slot = next
		s.schedule(sl, now.Add(recordRetry))
	} else {
		sl.Slot = next
		s.schedule(sl, plan.Wake(next, policy, now))
	}
	s.rebalance = s.rebalance || before.State != next.State || before.Goal != next.Goal || before.Session != next.Session
	if next.Dropped {
		s.drop(sl)
		return
	}
	for _, action := range do {
		s.runnerOf(sl).begin(sl.Slot, action)
	}
}

// recordRetry is the pause before a decision that could not be recorded is
// taken again.
const recordRetry = 2 * time.Second

// withoutRecord lets stops go on while nothing can be recorded; any other new
// intent waits (design §5).
func (s *Supervisor) withoutRecord(folded, next plan.Slot, do []plan.Action) (plan.Slot, []plan.Action) {
	for _, action := range do {
		stops := action.Kind == plan.Stop || action.Kind == plan.StopIdle
		if !stops && !action.Cancel {
			return folded, nil
		}
	}
	if next.Dropped {
		return folded, nil
	}
	return next, do
}

// record writes the slot's next state and the events that explain it, in one
// transaction, before anything is done about it.
func (s *Supervisor) record(sl *slot, before, next plan.Slot, now time.Time) error {
	data, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("record %s: %w", s.name(next.Num), err)
	}
	change := s.storyOf(before, next, now)
	switch {
	case next.Dropped:
		change.Drop = []int{next.Num}
	case string(data) == sl.written && len(change.Events) == 0:
		return nil
	default:
		change.Slots = []state.Record{{Num: next.Num, JSON: data}}
	}
	if err := s.write(change); err != nil {
		return err
	}
	sl.written = string(data)
	return nil
}

// write writes a change and keeps in mind, and says, whether that works.
func (s *Supervisor) write(change state.Change) error {
	_, err := s.store.Write(change)
	switch {
	case err != nil && s.unsaved == nil:
		s.set.Logger.Error("nothing can be recorded: running workers go on, nothing new starts; make room or repair the state folder", "error", err, "state_dir", s.set.StateDir)
	case err == nil && s.unsaved != nil:
		s.set.Logger.Info("records can be written again")
	}
	s.unsaved = err
	if err != nil {
		return err // what was not recorded is not done, so it is no event
	}
	for _, e := range change.Events {
		s.logEvent(e)
	}
	return nil
}

// note writes an event about the pool itself.
func (s *Supervisor) note(kind, reason string, fields map[string]string) {
	s.tellEvent(state.Event{At: time.Now(), Kind: kind, Reason: reason, Fields: fields})
}

// tellEvent records what has happened already. What cannot be recorded is in
// the supervisor's log all the same.
func (s *Supervisor) tellEvent(e state.Event) {
	if err := s.write(state.Change{Events: []state.Event{e}}); err != nil {
		s.logEvent(e)
	}
}

// drop forgets a slot that is gone for good.
func (s *Supervisor) drop(sl *slot) {
	s.timers.remove(sl)
	if sl.runner != nil {
		sl.runner.end()
	}
	delete(s.slots, sl.Num)
	s.rebalance = true
}

// balance brings the set of slots in line with the desired size.
func (s *Supervisor) balance() {
	for round := 0; s.rebalance && round < 3; round++ {
		s.rebalance = false
		s.fleet.hurry(s.awaitsSession())
		if s.ending != nil {
			return
		}
		for _, d := range plan.Pool(s.copies(), s.desired, s.policy(), time.Now()) {
			sl := s.slots[d.Num]
			if sl == nil && !d.New {
				continue // an earlier decision of this round was its last
			}
			if d.New {
				s.settle(s.newSlot(d.Num))
				s.rebalance = true // it still needs leave to start
				continue
			}
			s.settle(sl, d.Event)
		}
	}
}

// copies returns all slots by number.
func (s *Supervisor) copies() []plan.Slot {
	all := make([]plan.Slot, 0, len(s.slots))
	for _, num := range slices.Sorted(maps.Keys(s.slots)) {
		all = append(all, s.slots[num].Slot)
	}
	return all
}

// runnerOf returns the slot's goroutine, started when first needed.
func (s *Supervisor) runnerOf(sl *slot) *runner {
	if sl.runner == nil {
		sl.runner = newRunner(s, sl.Num)
	}
	return sl.runner
}

// eventFor sends an event about one slot to the loop.
func (s *Supervisor) eventFor(num int, e plan.Event) {
	s.tell(func(s *Supervisor) {
		if sl := s.slots[num]; sl != nil {
			s.settle(sl, e)
		}
	})
}

// crowdWindow is how close together failures count as one blow (design §4).
const crowdWindow = 5 * time.Second

// crowd counts a worker's failure and returns how many failed together when
// that is more than a quarter of the pool, else 0.
func (s *Supervisor) crowd(now time.Time) int {
	recent := s.failures[:0]
	for _, at := range s.failures {
		if now.Sub(at) < crowdWindow {
			recent = append(recent, at)
		}
	}
	s.failures = append(recent, now)
	if n := len(s.failures); n > 1 && n*4 > len(s.slots) {
		return n
	}
	return 0
}

// failureOf completes an event that may mean a failure: with a random draw and
// with whether others failed at the same time.
func (s *Supervisor) failureOf(num int, e func(roll float64, crowd int) plan.Event) {
	s.tell(func(s *Supervisor) {
		if sl := s.slots[num]; sl != nil {
			s.settle(sl, e(s.set.Rand(), s.crowd(time.Now())))
			s.fleet.kick() // a rejected token shows at once
		}
	})
}

// awaitsSession reports whether some worker is to stop once its session ends.
func (s *Supervisor) awaitsSession() bool {
	for _, sl := range s.slots {
		if sl.State == plan.Draining && sl.Session != "" {
			return true
		}
	}
	return false
}
