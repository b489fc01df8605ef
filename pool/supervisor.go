package pool

import (
	"context"
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
	readers readers
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
	if s.set.FleetAway != "" {
		s.note("api", s.set.FleetAway, nil)
	}
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
	for running := true; running; {
		select {
		case <-s.inbox: // a runner's last word: its action is done again next time
		case <-ended:
			s.logs.closeFiles()
			running = false
		case <-patience.C:
			s.set.Logger.Warn("left while a call to the provider did not come back; it is taken up again at the next start", "left", s.underWay())
			running = false
		}
	}
	s.logs.close()
	s.readers.close(readPatience)
	s.store.Close()
}

// readPatience is how long the end waits for those who follow the events to
// read the last ones.
const readPatience = 2 * time.Second

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
	s.lastLook()
	s.note("down", "the pool is down", nil)
	return true
}
