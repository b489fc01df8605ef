package pool

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/pool/state"
	"github.com/outpostpool/pool/providers"
)

func statePath(stateDir string) string { return filepath.Join(stateDir, "pool.db") }

// adopt takes a new epoch and makes records for sandboxes of ours that have
// none, so that losing the records loses no sandbox.
func (s *Supervisor) adopt(ctx context.Context) error {
	found, err := s.set.Provider.List(ctx, s.set.Name)
	if err != nil && len(s.slots) == 0 {
		return fmt.Errorf("list the pool's sandboxes: %w", err)
	}
	var strangers []string
	for _, info := range found {
		if info.Labels.UID != s.uid {
			strangers = append(strangers, info.Name)
			continue
		}
		if info.State == providers.Gone {
			continue
		}
		if seen, err := s.epochOf(ctx, info.ID); err == nil {
			s.epoch = max(s.epoch, seen)
		}
		s.adoptOne(info)
	}
	if len(strangers) > 0 {
		s.set.Notes = append(s.set.Notes, "another pool of this name has sandboxes here, which are left alone: "+strings.Join(strangers, ", "))
	}
	s.epoch++
	return s.write(state.Change{Settings: map[string]string{keyEpoch: strconv.FormatInt(s.epoch, 10), keyDown: "", keyName: s.set.Name, keyConfig: s.set.ConfigFile}})
}

func (s *Supervisor) epochOf(ctx context.Context, id string) (int64, error) {
	sandbox, err := s.set.Provider.Open(ctx, id)
	if err != nil {
		return 0, err
	}
	epochs, ok := providers.As[providers.Epocher](sandbox)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return epochs.Epoch(ctx)
}

// adoptOne makes a record for a sandbox whose slot has none.
func (s *Supervisor) adoptOne(info providers.Info) {
	sl := s.slots[info.Labels.Slot]
	if sl == nil {
		sl = s.newSlot(info.Labels.Slot)
	}
	if sl.Sandbox != "" || sl.Doing != nil || sl.Generation > info.Labels.Generation {
		return
	}
	sl.Generation, sl.Sandbox, sl.Incarnation = info.Labels.Generation, info.ID, info.Incarnation
	sl.Workspace, sl.ConfigHash, sl.Granted = info.Workspace, info.Labels.ConfigHash, true
	sl.State, sl.Reason, sl.Since = plan.Preparing, "found by its labels", time.Now()
}

// sweepEvery is how often the pool looks for sandboxes of its own that no
// record knows.
const sweepEvery = 3 * time.Minute

// probeEvery is how often each sandbox is looked at, so that one deleted
// behind our back is noticed.
const probeEvery = 20 * time.Second

// sweep looks at all sandboxes now and then. A list may be stale: a sandbox
// that is missing from it is looked for by id, and one too many is removed
// after two sightings.
func (s *Supervisor) sweep(ctx context.Context) {
	sightings := map[string]int{}
	swept := time.Now()
	for pause(ctx, probeEvery) == nil {
		found, err := s.set.Provider.List(ctx, s.set.Name)
		if err != nil {
			continue // unknown is not dead
		}
		s.tell(func(s *Supervisor) { s.missing(found) })
		if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			s.tell(func(s *Supervisor) { s.leftovers(found, sightings) })
		}
	}
}

// missing has every recorded sandbox looked for that a list does not show.
func (s *Supervisor) missing(found []providers.Info) {
	here := map[string]bool{}
	for _, info := range found {
		if info.State != providers.Gone {
			here[info.ID] = true
		}
	}
	for num, sl := range s.slots {
		if sl.Sandbox != "" && !here[sl.Sandbox] {
			s.look(num)
		}
	}
}

// look has a slot's sandbox looked at anew, unless something is under way that
// will tell as much.
func (s *Supervisor) look(num int) {
	if sl := s.slots[num]; sl != nil && sl.Sandbox != "" && sl.Doing == nil {
		sl.Found = false
		s.settle(sl)
	}
}

// lookAgain is look, asked for from outside the loop.
func (s *Supervisor) lookAgain(num int) {
	s.tell(func(s *Supervisor) { s.look(num) })
}

// leftovers removes sandboxes of this pool and uid that no slot knows, at the
// second sighting.
func (s *Supervisor) leftovers(found []providers.Info, sightings map[string]int) {
	seen := map[string]bool{}
	for _, info := range found {
		if info.Labels.UID != s.uid || info.State == providers.Gone || s.knows(info) {
			continue
		}
		seen[info.ID] = true
		if sightings[info.ID]++; sightings[info.ID] < 2 {
			continue
		}
		s.note("leftover", fmt.Sprintf("removes %s: no slot of this pool has it", info.Name), nil)
		s.runners.Go(func() { s.removeLeftover(info) })
	}
	for id := range sightings {
		if !seen[id] {
			delete(sightings, id)
		}
	}
}

// knows reports whether a slot has this sandbox, or is making or removing it.
func (s *Supervisor) knows(info providers.Info) bool {
	sl := s.slots[info.Labels.Slot]
	return sl != nil && (sl.Sandbox == info.ID || sl.Generation == info.Labels.Generation && sl.Doing != nil)
}

// lastLook removes what is left of this pool when every slot is gone: the end
// of a down leaks nothing.
func (s *Supervisor) lastLook() {
	ctx, cancel := context.WithTimeout(s.ctx, lastLookLimit)
	defer cancel()
	found, err := s.set.Provider.List(ctx, s.set.Name)
	if err != nil {
		s.set.Logger.Warn("whether sandboxes are left behind is not known; the next start looks again", "error", err)
	}
	for _, info := range found {
		if info.Labels.UID == s.uid && info.State != providers.Gone {
			s.note("leftover", fmt.Sprintf("removes %s: the pool is down and no slot has it", info.Name), nil)
			s.removeLeftover(info)
		}
	}
}

// lastLookLimit bounds the look for leftovers at the end.
const lastLookLimit = time.Minute

func (s *Supervisor) removeLeftover(info providers.Info) {
	ctx, cancel := context.WithTimeout(s.ctx, s.deadline(plan.Remove))
	defer cancel()
	sandbox, err := s.set.Provider.Open(ctx, info.ID)
	if err == nil {
		err = sandbox.Remove(ctx, true)
	}
	if err != nil && !providers.Is(err, providers.NotFound) {
		s.set.Logger.Warn("a leftover sandbox could not be removed; it is tried again", "sandbox", info.Name, "error", err)
	}
}
