package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/pool/state"
)

// Keys of the pool's own settings in the records.
const (
	keyDesired  = "desired"
	keySizeRule = "size_rule"
	keyDown     = "down" // when it was taken down on purpose
	keyEpoch    = "epoch"
	keyName     = "name" // of the pool whose records these are
	keyConfig   = "config_file"
)

// Open readies a supervisor on its records: identity, epoch, slots. The caller
// holds the pool's lock and has written the uid.
func Open(set Settings) (*Supervisor, error) {
	uid, err := ReadUID(set.StateDir)
	if err != nil {
		return nil, err
	}
	store, err := state.Open(statePath(set.StateDir))
	if err != nil {
		return nil, err
	}
	s := &Supervisor{
		set: set, uid: uid, store: store,
		inbox:     make(chan message, 256),
		changed:   newBroadcast(),
		slots:     map[int]*slot{},
		deafAsked: map[string]bool{},
	}
	s.logs = newLogBook(s)
	s.usage = newSampler(set.Provider)
	s.fleet = newFleet(set, s.tell)
	s.token = control.Token{State: "unchecked", Source: set.TokenSource}
	switch {
	case set.Fleet == nil:
		s.api.State, s.facts.NoAPI = "off", true
	case set.FleetAway != "":
		s.api = control.API{State: "stale", Detail: set.FleetAway, StaleSince: time.Now()}
	}
	// Made here and not in Run: the socket may be served before Run begins.
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.load(); err != nil {
		store.Close()
		return nil, err
	}
	if set.ScaleTo != nil {
		if _, err := s.scale(control.ScaleRequest{Workers: *set.ScaleTo}, time.Now()); err != nil {
			store.Close()
			return nil, err
		}
	}
	return s, nil
}

// load reads the records.
func (s *Supervisor) load() error {
	settings, err := s.store.Settings()
	if err != nil {
		return err
	}
	if owner := settings[keyName]; owner != "" && owner != s.set.Name {
		return fmt.Errorf("%s holds the records of pool %s, not of %s; give each pool a [pool] state_dir of its own", s.set.StateDir, owner, s.set.Name)
	}
	s.desired, s.sizeRule = s.set.Workers, control.SizeRule{Source: "config"}
	if n, err := strconv.Atoi(settings[keyDesired]); err == nil && settings[keySizeRule] != "" {
		if err := json.Unmarshal([]byte(settings[keySizeRule]), &s.sizeRule); err != nil {
			return fmt.Errorf("read the records: the size rule: %w", err)
		}
		s.desired = n
	}
	s.epoch, _ = strconv.ParseInt(settings[keyEpoch], 10, 64)
	records, err := s.store.Slots()
	if err != nil {
		return err
	}
	for _, r := range records {
		sl := s.newSlot(r.Num)
		if err := json.Unmarshal(r.JSON, &sl.Slot); err != nil {
			return fmt.Errorf("read the records: %s: %w", s.name(r.Num), err)
		}
		sl.written = string(r.JSON)
		if settings[keyDown] != "" && sl.Goal.Kind == plan.Rest {
			sl.Slot = plan.After(sl.Slot, plan.Asked{Goal: plan.Goal{Kind: plan.Serve}}, s.policy(), time.Now())
		}
	}
	return nil
}

func (s *Supervisor) newSlot(num int) *slot {
	sl := &slot{Slot: plan.Slot{
		Num:      num,
		Acceptor: AcceptorID(s.set.Name, s.uid, num),
		State:    plan.Absent,
		Reason:   "new",
		Since:    time.Now(),
		Goal:     plan.Goal{Kind: plan.Serve},
	}, index: -1}
	s.slots[num] = sl
	return sl
}

func (s *Supervisor) name(slot int) string { return WorkerName(s.set.Name, slot) }

func (s *Supervisor) policy() plan.Policy {
	p := s.set.Policy
	p.Facts = s.facts
	return p
}

// LastEvent returns the id of the newest event, 0 when there is none.
func (s *Supervisor) LastEvent() (int64, error) {
	events, err := s.store.Events("", 0, 1)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[0].ID, nil
}

// Memory is what the records say about the pool while no supervisor runs.
type Memory struct {
	Name       string // of the pool whose records these are
	Down       string // when it was taken down on purpose; empty when it was not
	ConfigFile string // that it was started with last; empty: none
}

// Recall reads a state folder's records; a zero Memory where there are none.
func Recall(stateDir string) (Memory, error) {
	if _, err := os.Stat(statePath(stateDir)); errors.Is(err, fs.ErrNotExist) {
		return Memory{}, nil
	}
	store, err := state.Open(statePath(stateDir))
	if err != nil {
		return Memory{}, err
	}
	defer store.Close()
	settings, err := store.Settings()
	return Memory{Name: settings[keyName], Down: settings[keyDown], ConfigFile: settings[keyConfig]}, err
}
