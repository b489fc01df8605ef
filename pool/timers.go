package pool

import (
	"container/heap"
	"time"
)

// timerHeap orders slots by when they next need a decision, so that a slot
// costs nothing until then.
type timerHeap []*slot

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].wake.Before(h[j].wake) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	sl := x.(*slot)
	sl.index = len(*h)
	*h = append(*h, sl)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	sl := (*h)[last]
	*h = (*h)[:last]
	sl.index = -1
	return sl
}

// idleWake bounds how long the loop sleeps when no timer is set.
const idleWake = time.Hour

// untilNext is how long the loop may sleep when nothing comes in.
func (s *Supervisor) untilNext(now time.Time) time.Duration {
	wait := idleWake
	if len(s.timers) > 0 {
		wait = min(wait, s.timers[0].wake.Sub(now))
	}
	if until := s.sizeRule.Until; !until.IsZero() {
		wait = min(wait, until.Sub(now))
	}
	return max(0, wait)
}

func (h *timerHeap) remove(sl *slot) {
	if sl.index >= 0 {
		heap.Remove(h, sl.index)
	}
}

// schedule sets when the slot is looked at again; zero: not by the clock.
func (s *Supervisor) schedule(sl *slot, at time.Time) {
	s.timers.remove(sl)
	if at.IsZero() {
		return
	}
	sl.wake = at
	heap.Push(&s.timers, sl)
}

// runTimers settles every slot whose time has come.
func (s *Supervisor) runTimers() {
	now := time.Now()
	for len(s.timers) > 0 && !s.timers[0].wake.After(now) {
		sl := s.timers[0]
		s.timers.remove(sl)
		s.settle(sl)
	}
}
