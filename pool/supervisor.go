package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/pool/state"
	"github.com/outpostpool/pool/worker/outpost"
)

// Supervisor keeps a pool. Run is its one loop, the only code that writes slot
// state; everything else sends it messages and gets copies.
type Supervisor struct {
	set   Settings
	uid   string
	epoch int64
	store records
	fleet *fleet
	logs  *logBook
	usage *sampler
	flags flagProbe

	inbox   chan message
	changed *broadcast      // tells watchers that there is something new to see
	ctx     context.Context // ends when Run does
	cancel  context.CancelFunc
	runners sync.WaitGroup

	// What follows belongs to the loop.
	slots     map[int]*slot
	timers    timerHeap
	desired   int
	sizeRule  control.SizeRule
	facts     plan.Facts
	reading   outpost.Queue
	api       control.API
	token     control.Token
	started   time.Time
	ending    *control.DownRequest
	unsaved   error // why the last write failed; nil when records are whole
	rebalance bool
	failures  []time.Time // of workers, within crowdWindow
	deafAsked map[string]bool
}

// records is what must survive: a *state.Store.
type records interface {
	Slots() ([]state.Record, error)
	Settings() (map[string]string, error)
	Write(state.Change) ([]state.Event, error)
	Events(worker string, after int64, limit int) ([]state.Event, error)
	Sessions(limit int) ([]state.Session, error)
	SessionsOf(id string) ([]state.Session, error)
	LogPosition(slot int) ([]byte, error)
	SetLogPositions(map[int][]byte) error
	Close() error
}

// slot is a plan.Slot with what the loop needs to drive it.
type slot struct {
	plan.Slot
	runner  *runner
	written string // the record as it is on disk
	wake    time.Time
	index   int    // in timers
	deaf    string // why it is thought deaf; empty when it is not
}

// message is something for the loop to take in.
type message func(*Supervisor)

// tell sends a message to the loop. It gives up when the supervisor ends.
func (s *Supervisor) tell(m message) {
	select {
	case s.inbox <- m:
	case <-s.ctx.Done():
	}
}

// ask runs f in the loop and waits for it.
func (s *Supervisor) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case s.inbox <- func(*Supervisor) { f(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errEnding
	}
	select {
	case <-done:
		return nil
	case <-s.ctx.Done():
	}
	select {
	case <-done: // it was the last thing done, as the end itself is
		return nil
	default:
		return errEnding
	}
}

var errEnding = control.Fail(control.CodeUnavailable, "the supervisor is ending", "`pool up` starts it again")

// Keys of the pool's own settings in the records.
const (
	keyDesired  = "desired"
	keySizeRule = "size_rule"
	keyDown     = "down" // when it was taken down on purpose
	keyEpoch    = "epoch"
	keyName     = "name" // of the pool whose records these are
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
	if set.Fleet == nil {
		s.api.State, s.facts.NoAPI = "off", true
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

// Run keeps the pool until it has been taken down or left, or ctx ends, which
// leaves it: the workers go on and the next supervisor adopts them.
func (s *Supervisor) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.cancel)()
	ctx, s.started = s.ctx, time.Now()
	defer s.close()
	if err := s.adopt(ctx); err != nil {
		return err
	}
	s.note("note", fmt.Sprintf("the supervisor started (pid %d, version %s)", pid(), s.set.Version), map[string]string{"epoch": strconv.FormatInt(s.epoch, 10)})
	s.background(s.fleet.run)
	s.background(s.sweep)
	s.resumeAll()
	for {
		s.balance()
		if s.finished() {
			return nil
		}
		timer := time.NewTimer(s.untilNext(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case m := <-s.inbox:
			m(s)
			s.drainInbox()
		case <-timer.C:
		}
		timer.Stop()
		s.runTimers()
		s.expireSize(time.Now())
		s.changed.send()
	}
}

// drainInbox takes in what else has come, so that a burst is balanced once.
func (s *Supervisor) drainInbox() {
	for range cap(s.inbox) {
		select {
		case m := <-s.inbox:
			m(s)
		default:
			return
		}
	}
}

// background runs f in a goroutine that close waits for.
func (s *Supervisor) background(f func(context.Context)) {
	s.runners.Go(func() { f(s.ctx) })
}

// close ends what Run began. Actions under way are cancelled; they are
// recorded and will be carried out again.
func (s *Supervisor) close() {
	s.cancel()
	s.changed.close()
	ended := make(chan struct{})
	go func() { s.runners.Wait(); close(ended) }()
	patience := time.NewTimer(leavePatience)
	defer patience.Stop()
	for {
		select {
		case <-s.inbox: // a runner's last word: its action is done again next time
		case <-ended:
			s.logs.closeFiles()
			s.logs.close()
			s.store.Close()
			return
		case <-patience.C:
			s.set.Logger.Warn("left while a call to the provider did not come back; it is taken up again at the next start", "left", s.underWay())
			s.logs.close()
			s.store.Close()
			return
		}
	}
}

// leavePatience bounds how long the end waits for calls that do not heed their
// cancellation.
const leavePatience = 10 * time.Second

// underWay names what the slots are doing, for people.
func (s *Supervisor) underWay() (doing []string) {
	for _, p := range s.copies() {
		if p.Doing != nil {
			doing = append(doing, fmt.Sprintf("%s of %s", p.Doing.Kind, s.name(p.Num)))
		}
	}
	return doing
}

// resumeAll carries out unfinished intents again and looks at every sandbox.
func (s *Supervisor) resumeAll() {
	for _, num := range slices.Sorted(maps.Keys(s.slots)) {
		sl := s.slots[num]
		if sl.Doing != nil {
			s.runnerOf(sl).begin(sl.Slot, *sl.Doing)
			continue
		}
		s.settle(sl)
	}
	s.rebalance = true
}

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
	for _, e := range change.Events {
		s.logEvent(e)
	}
	return err
}

// note writes an event about the pool itself.
func (s *Supervisor) note(kind, reason string, fields map[string]string) {
	// What cannot be recorded is in the supervisor's log all the same.
	_ = s.write(state.Change{Events: []state.Event{{At: time.Now(), Kind: kind, Reason: reason, Fields: fields}}})
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
		if s.ending != nil {
			return
		}
		for _, d := range plan.Pool(s.copies(), s.desired, s.policy(), time.Now()) {
			sl := s.slots[d.Num]
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

// finished reports whether a down has nothing left to do.
func (s *Supervisor) finished() bool {
	if s.ending == nil {
		return false
	}
	if s.ending.Leave {
		return true
	}
	for _, sl := range s.slots {
		if sl.State != plan.Absent || sl.Doing != nil {
			return false
		}
	}
	s.note("down", "the pool is down", nil)
	return true
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

// IsRunning reports whether err says that another supervisor runs.
func IsRunning(err error) bool { return errors.Is(err, ErrRunning) }

// LastEvent returns the id of the newest event, 0 when there is none.
func (s *Supervisor) LastEvent() (int64, error) {
	events, err := s.store.Events("", 0, 1)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	return events[0].ID, nil
}

// DownSince tells when the pool was taken down on purpose; empty when it was
// not, or has been started since. No supervisor of the pool runs.
func DownSince(stateDir string) (string, error) {
	store, err := state.Open(statePath(stateDir))
	if err != nil {
		return "", err
	}
	defer store.Close()
	settings, err := store.Settings()
	return settings[keyDown], err
}
