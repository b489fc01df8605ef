package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/providers"
)

var t0 = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

func policy() Policy {
	return Policy{
		Initial: time.Second, Max: 5 * time.Minute, Jitter: 0.25, ResetAfter: 10 * time.Minute,
		CrashLoopAfter: 5, ReplaceAfter: 3, StartWindow: 5 * time.Second, StopGrace: 30 * time.Second,
		DrainLimit: 2 * time.Hour, ClaimLife: 5 * time.Minute, ParallelStarts: 8, MaxUnavailable: 1,
		ConfigHash: "h", Facts: Facts{APIAnswers: true},
	}
}

// life drives one slot: it folds events in and remembers what Next wanted.
type life struct {
	t   *testing.T
	s   Slot
	p   Policy
	now time.Time
	did []ActionKind
}

func begin(t *testing.T) *life {
	return &life{t: t, p: policy(), now: t0, s: Slot{Num: 0, Acceptor: "web-u-0", State: Absent, Goal: Goal{Kind: Serve}}}
}

// hear folds events in and lets the planner decide.
func (l *life) hear(events ...Event) *life {
	l.t.Helper()
	for _, e := range events {
		l.s = After(l.s, e, l.p, l.now)
	}
	var do []Action
	l.s, do = Next(l.s, l.p, l.now)
	if len(do) > 1 {
		l.t.Fatalf("%d actions at once: %v", len(do), do)
	}
	for _, a := range do {
		if a.Cancel {
			l.did = append(l.did, "cancel "+a.Kind)
			continue
		}
		l.did = append(l.did, a.Kind)
	}
	return l
}

// ok finishes the action under way well.
func (l *life) ok() *life {
	l.t.Helper()
	f := Finished{Action: *l.s.Doing, OK: true}
	switch l.s.Doing.Kind {
	case Create:
		f.Sandbox = &Sandbox{ID: "sb", Incarnation: "i1"}
	case Launch:
		f.Worker = &Worker{LaunchID: l.s.Doing.LaunchID, PID: 42, Started: l.now}
	case Look:
		f.Sandbox = &Sandbox{ID: "sb", Incarnation: "i1"}
		if l.s.Alive {
			f.Worker = &Worker{LaunchID: l.s.LaunchID, PID: l.s.PID, Started: l.s.Started}
		}
	case Stop, StopIdle:
		f.Exit = &providers.Exit{Code: 143, Signal: 15, Known: true, At: l.now}
	}
	return l.hear(f)
}

func (l *life) failed(class providers.Class, detail string) *life {
	l.t.Helper()
	return l.hear(Finished{Action: *l.s.Doing, Class: class, Detail: detail, Roll: 0.5})
}

// later moves the clock, stopping at each time the planner asked for.
func (l *life) later(d time.Duration) *life {
	l.t.Helper()
	end := l.now.Add(d)
	for {
		wake := Wake(l.s, l.p, l.now)
		if wake.IsZero() || wake.After(end) {
			break
		}
		l.now = wake
		l.hear()
		if l.s.Doing != nil {
			break
		}
	}
	if l.s.Doing == nil {
		l.now = end
		l.hear()
	}
	return l
}

func (l *life) ends(code int) *life {
	l.t.Helper()
	return l.hear(WorkerEnded{LaunchID: l.s.LaunchID, Exit: providers.Exit{Code: code, Known: true, At: l.now}, Roll: 0.5})
}

// serving brings a new slot to idle.
func serving(t *testing.T) *life {
	l := begin(t).hear(Granted{}).ok().ok().ok().later(6 * time.Second)
	l.is(Idle)
	l.did = nil
	return l
}

func (l *life) is(want State) *life {
	l.t.Helper()
	if l.s.State != want {
		l.t.Fatalf("state is %s (%s), want %s", l.s.State, l.s.Reason, want)
	}
	return l
}

func (l *life) wanted(want ...ActionKind) *life {
	l.t.Helper()
	if diff := cmp.Diff(want, l.did); diff != "" {
		l.t.Fatalf("actions (-want +got):\n%s", diff)
	}
	return l
}

func TestDelay(t *testing.T) {
	p := policy()
	for _, c := range []struct {
		name   string
		before int
		roll   float64
		crowd  int
		want   time.Duration
	}{
		{"the first failure restarts at once", 0, 0.9, 0, 0},
		{"a first failure in a crowd is spread", 0, 0.5, 16, 1600 * time.Millisecond},
		{"the second waits the initial delay", 1, 0.5, 0, time.Second},
		{"then it doubles", 3, 0.5, 0, 4 * time.Second},
		{"jitter down", 1, 0, 0, 750 * time.Millisecond},
		{"jitter up", 1, 1, 0, 1250 * time.Millisecond},
		{"never beyond the longest", 20, 0.5, 0, 5 * time.Minute},
		{"nor with so many failures that the shift overflows", 1 << 40, 0.5, 0, 5 * time.Minute},
	} {
		if got := Delay(p, c.before, c.roll, c.crowd); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	p.Max = 10 * time.Minute
	if got := Delay(p, 30, 0.5, 0); got != 10*time.Minute {
		t.Errorf("a configured longest delay is kept to: %s", got)
	}
}

func TestFromNothingToServing(t *testing.T) {
	l := begin(t).hear()
	l.is(Absent).wanted()
	l.hear(Granted{}).is(Creating).ok().is(Preparing).ok().is(Starting).ok().is(Starting)
	if !l.s.Alive || l.s.LaunchID != "web-u-0-g1-1" || l.s.Generation != 1 {
		t.Fatalf("after launch: %+v", l.s)
	}
	l.later(4 * time.Second).is(Starting).later(time.Second).is(Idle)
	l.hear(Claimed{Session: "devin-a"}).is(Busy).hear(Claimed{}).is(Idle)
	l.wanted(Create, Prepare, Launch)
	if l.s.Served != 1 || !l.s.Proved {
		t.Fatalf("served %d, proved %v", l.s.Served, l.s.Proved)
	}
}

func TestAFailedWorkerRestartsInTheSameSandbox(t *testing.T) {
	l := serving(t).hear(Claimed{Session: "devin-a"}).ends(1)
	l.wanted(Launch).is(Starting)
	if l.s.Generation != 1 || l.s.LaunchID != "web-u-0-g1-2" || l.s.Session != "devin-a" {
		t.Fatalf("after the restart: %+v", l.s)
	}
	l.ok()
	if l.s.Restarts != 1 || l.s.Failures != 1 || l.s.LastExit.Reason != "exit code 1 after 6 s" {
		t.Fatalf("counters: %d restarts, %d failures, %q", l.s.Restarts, l.s.Failures, l.s.LastExit.Reason)
	}
}

// A counter that never goes down gives a worker up that fails once a week
// (reports.md, restart policy).
func TestFailuresAreForgottenTheTotalIsNot(t *testing.T) {
	l := serving(t)
	for range 4 {
		l.ends(1)
		for l.s.Doing == nil {
			l.later(time.Minute)
		}
		l.ok()
	}
	l.later(11 * time.Minute)
	if l.s.Failures != 0 {
		t.Fatalf("%d failures remembered after a long life", l.s.Failures)
	}
	l.ends(1).is(Starting) // at once: the delay begins at the minimum
	l.ok()
	if l.s.Restarts != 5 {
		t.Fatalf("%d restarts shown, want 5", l.s.Restarts)
	}
}

// A worker that lives a little longer than the start window must not restart
// at a flat rate for ever (reports.md, restart policy).
func TestJustLongEnoughIsStillAStorm(t *testing.T) {
	l := serving(t)
	l.p.Facts.APIAnswers = false // no replacement in this test
	starts := 0
	for end := l.now.Add(time.Hour); l.now.Before(end); {
		if l.s.Doing != nil {
			l.ok()
			starts++
			continue
		}
		if l.s.Alive {
			l.now = l.now.Add(7500 * time.Millisecond)
			l.ends(1)
			continue
		}
		l.later(time.Second)
	}
	if starts > 30 {
		t.Fatalf("%d starts within an hour", starts)
	}
	if why, looping := l.s.CrashLooping(l.p, l.now); !looping {
		t.Fatalf("not crash-looping after %d starts (%s)", starts, why)
	}
	if starts < 12 {
		t.Fatalf("%d starts: a crash-looping slot is still retried", starts)
	}
}

func TestFiveFailuresWithinAnHourAreCrashLooping(t *testing.T) {
	l := serving(t)
	for range 5 {
		l.later(11 * time.Minute).ends(1)
		for l.s.Doing == nil {
			l.later(time.Second)
		}
		l.ok()
	}
	if _, looping := l.s.CrashLooping(l.p, l.now); !looping {
		t.Fatal("five failures within an hour, each after a long life, are not seen")
	}
	if _, looping := l.s.CrashLooping(l.p, l.now.Add(time.Hour)); looping {
		t.Fatal("still crash-looping an hour later")
	}
}

// Stop during the restart delay must never bring the process back.
func TestAStopDuringBackoffStays(t *testing.T) {
	for at := time.Duration(0); at < 4*time.Second; at += 100 * time.Millisecond {
		l := serving(t).ends(1).ok().ends(1).later(time.Second).ok().ends(1) // waits 2 s
		l.did = nil
		l.later(at)
		launched := len(l.did)
		if launched > 0 {
			l.ok()
		}
		l.hear(Asked{Goal{Kind: Rest, Until: l.now.Add(time.Hour), Why: "drained"}})
		for range 5 {
			if l.s.Doing != nil {
				l.ok()
			}
			l.later(10 * time.Minute)
		}
		l.is(Absent)
		if l.s.Alive || len(l.did) > 0 && l.did[len(l.did)-1] != Remove {
			t.Fatalf("stopped %s into the delay: %v", at, l.did)
		}
	}
}

func TestTwoRestartsAtOnceLaunchOnce(t *testing.T) {
	restart := Asked{Goal{Kind: Restart, Until: t0.Add(time.Hour), Why: "asked"}}
	l := serving(t).hear(restart).hear(restart)
	l.wanted(StopIdle).ok().wanted(StopIdle, Launch).hear(restart)
	l.wanted(StopIdle, Launch)
}

func TestARejectedTokenStopsRestartsAndComesBackByItself(t *testing.T) {
	l := serving(t)
	l.p.Facts = Facts{TokenRejected: "rejected"}
	l.hear().is(Idle) // it never stops a living worker
	l.ends(1).is(Held).later(time.Hour).is(Held).wanted()
	l.p.Facts = Facts{APIAnswers: true}
	l.hear().is(Starting).wanted(Launch)
}

func TestDrainWaitsForTheSession(t *testing.T) {
	until := t0.Add(2 * time.Hour)
	drain := Asked{Goal{Kind: Rest, Until: until, Why: "drained"}}
	t.Run("and stops when it has ended", func(t *testing.T) {
		l := serving(t).hear(Claimed{Session: "devin-a"}, drain).is(Draining).later(time.Hour).wanted()
		l.hear(Claimed{}).wanted(StopIdle).ok().wanted(StopIdle, Remove).ok().is(Absent)
	})
	t.Run("not beyond the limit", func(t *testing.T) {
		l := serving(t).hear(Claimed{Session: "devin-a"}, drain).later(3 * time.Hour).wanted(Stop)
		if want := "the drain limit passed; cuts off devin-a after"; !strings.Contains(l.s.Reason, want) {
			t.Fatalf("reason %q does not say %q", l.s.Reason, want)
		}
		l.ok().wanted(Stop, Release).ok().wanted(Stop, Release, Remove)
	})
	t.Run("nor when a person says now", func(t *testing.T) {
		serving(t).hear(Claimed{Session: "devin-a"}, drain).hear(Asked{Goal{Kind: Rest, Now: true, Why: "down"}}).wanted(Stop)
	})
	t.Run("and is taken back", func(t *testing.T) {
		serving(t).hear(Claimed{Session: "devin-a"}, drain).hear(Asked{Goal{Kind: Serve}}).is(Busy).wanted()
	})
	t.Run("a session that comes first is served", func(t *testing.T) {
		l := serving(t).hear(drain).wanted(StopIdle)
		l.hear(Finished{Action: *l.s.Doing, OK: true, Session: "devin-b"}).is(Draining).later(time.Minute).wanted(StopIdle)
		l.hear(Claimed{AsOf: l.now}).wanted(StopIdle, StopIdle)
	})
	t.Run("and decides nothing while Devin Cloud is away", func(t *testing.T) {
		l := serving(t)
		l.p.Facts.APIAnswers = false
		l.hear(drain).is(Draining).later(time.Hour).wanted()
		l.later(2 * time.Hour).wanted(Stop)
	})
	t.Run("taken back in the middle of the stop", func(t *testing.T) {
		serving(t).hear(drain).hear(Asked{Goal{Kind: Serve}}).wanted(StopIdle, "cancel "+StopIdle)
	})
}

func TestRepeatedFailuresReplaceTheSandbox(t *testing.T) {
	l := serving(t)
	for range 3 {
		l.ends(1)
		if l.s.FailuresHere < 3 {
			for l.s.Doing == nil {
				l.later(time.Second)
			}
			l.ok()
		}
	}
	decisions := Pool([]Slot{l.s}, 1, l.p, l.now)
	if len(decisions) != 1 {
		t.Fatalf("decisions: %v", decisions)
	}
	l.did = nil
	next := l.s.NextStart
	l.hear(decisions[0].Event).wanted(Remove).ok().is(Absent).hear(Granted{})
	if l.now.Before(next) {
		l.is(Absent) // the replacement keeps to the delay
	}
	l.later(next.Sub(l.now)).is(Creating)
	if l.s.Generation != 2 {
		t.Fatalf("generation %d", l.s.Generation)
	}
}

func TestUnknownIsNotDead(t *testing.T) {
	l := serving(t)
	l.s.Found = false // a new supervisor on old records
	l.hear().wanted(Look).failed(providers.Unknown, "no answer").is(Idle)
	if !l.s.Alive || l.s.Unreachable != "no answer" {
		t.Fatalf("%+v", l.s)
	}
	l.later(time.Minute).wanted(Look, Look).ok().is(Idle)
	if l.s.Unreachable != "" || l.s.Restarts != 0 {
		t.Fatalf("%+v", l.s)
	}
}

func TestALostSandboxIsReplacedAndCounted(t *testing.T) {
	l := serving(t).hear(SandboxLost{Reason: "deleted behind our back"})
	l.wanted(Create).is(Creating)
	l.ok().ok().ok()
	if l.s.Generation != 2 || l.s.Restarts != 1 || l.s.LastExit.Known {
		t.Fatalf("%+v", l.s)
	}
}

func TestALaunchWithoutAnAnswerIsLookedAt(t *testing.T) {
	l := begin(t).hear(Granted{}).ok().ok()
	launch := l.s.Doing.LaunchID
	l.failed(providers.Unknown, "lost").later(2*time.Second).wanted(Create, Prepare, Launch, Look)
	l.hear(Finished{Action: *l.s.Doing, OK: true, Sandbox: &Sandbox{ID: "sb"}, Worker: &Worker{LaunchID: launch, PID: 7, Started: l.now}})
	l.is(Starting)
	if !l.s.Alive || l.s.PID != 7 {
		t.Fatalf("%+v", l.s)
	}
	l.wanted(Create, Prepare, Launch, Look) // and nothing is launched twice
}

func TestErrorClassesDecide(t *testing.T) {
	for _, c := range []struct {
		class providers.Class
		state State
		cause Cause
	}{
		{providers.Transient, Creating, ""},
		{providers.Unknown, Creating, ""},
		{providers.Conflict, Creating, ""},
		{providers.Unauthorized, Held, CauseProvider},
		{providers.Invalid, Held, CauseConfig},
		{providers.Limited, Held, CauseQuota},
	} {
		l := begin(t).hear(Granted{}).failed(c.class, "because")
		if l.s.State != c.state || l.s.Cause != c.cause {
			t.Errorf("%s: %s, held for %q", c.class, l.s.State, l.s.Cause)
		}
		l.did = nil
		l.later(2 * time.Minute).is(Creating).wanted(Create)
		if l.s.Generation != 1 {
			t.Errorf("%s: the same intent became generation %d", c.class, l.s.Generation)
		}
	}
}

func TestARejectedGitTokenHoldsAndSpeaksNotAgainstTheSandbox(t *testing.T) {
	l := begin(t).hear(Granted{}).ok()
	l.hear(Finished{Action: *l.s.Doing, GitAuth: true, Detail: "the git server says no"}).is(Held)
	if l.s.FailuresHere != 0 || l.s.Failures != 0 {
		t.Fatalf("counted: %+v", l.s)
	}
	l.did = nil
	l.later(2 * time.Minute).is(Preparing).wanted(Prepare)
}

func TestSuspendedIsBelievedAfterThreeReadings(t *testing.T) {
	asleep := Claimed{Session: "devin-a", Suspended: true}
	l := serving(t).hear(Claimed{Session: "devin-a"}, asleep, asleep).is(Busy)
	l.hear(Claimed{Session: "devin-a"}, asleep, asleep).is(Busy).hear(asleep).is(Idle)
}

func TestScaling(t *testing.T) {
	slot := func(num int, state State, session string, age time.Duration) Slot {
		return Slot{Num: num, State: state, Alive: state != Backoff, Session: session, SessionSince: t0.Add(-age), Goal: Goal{Kind: Serve}, Sandbox: "x", Found: true}
	}
	retires := func(ds []Decision) (nums []int) {
		for _, d := range ds {
			if a, ok := d.Event.(Asked); ok && a.Goal.Kind == Retire {
				nums = append(nums, d.Num)
			}
		}
		return nums
	}
	four := []Slot{slot(0, Busy, "a", time.Hour), slot(1, Idle, "", 0), slot(2, Busy, "b", time.Minute), slot(3, Busy, "c", 2*time.Hour)}
	t.Run("the idle one first, then the youngest session", func(t *testing.T) {
		if diff := cmp.Diff([]int{1, 2, 0}, retires(Pool(four, 1, policy(), t0))); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Run("broken ones before idle ones", func(t *testing.T) {
		slots := []Slot{slot(0, Idle, "", 0), slot(1, Backoff, "", 0)}
		if diff := cmp.Diff([]int{1}, retires(Pool(slots, 1, policy(), t0))); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Run("one that nobody has looked at yet may be busy", func(t *testing.T) {
		unseen := slot(1, Idle, "", 0)
		unseen.Found = false
		if diff := cmp.Diff([]int{0}, retires(Pool([]Slot{slot(0, Idle, "", 0), unseen}, 1, policy(), t0))); diff != "" {
			t.Fatal(diff)
		}
	})
	t.Run("what goes gets no leave to start", func(t *testing.T) {
		slots := []Slot{{Num: 0, State: Absent, Goal: Goal{Kind: Serve}}, {Num: 1, State: Absent, Goal: Goal{Kind: Serve}}}
		ds := Pool(slots, 1, policy(), t0)
		if len(ds) != 2 || ds[0].Num == ds[1].Num {
			t.Fatalf("%+v", ds)
		}
	})
	t.Run("scaled up again while one drains takes it back", func(t *testing.T) {
		draining := slot(1, Draining, "a", time.Hour)
		draining.Goal = Goal{Kind: Retire}
		ds := Pool([]Slot{four[0], draining}, 2, policy(), t0)
		if len(ds) != 1 || ds[0].Num != 1 || ds[0].New {
			t.Fatalf("%+v", ds)
		}
	})
	t.Run("numbers of leaving slots are not given twice", func(t *testing.T) {
		leaving := slot(0, Removing, "", 0)
		leaving.Alive, leaving.Goal = false, Goal{Kind: Retire}
		ds := Pool([]Slot{leaving}, 1, policy(), t0)
		if len(ds) != 1 || ds[0].Num != 1 || !ds[0].New {
			t.Fatalf("%+v", ds)
		}
	})
	t.Run("starts keep to the budget", func(t *testing.T) {
		var slots []Slot
		for i := range 20 {
			slots = append(slots, Slot{Num: i, State: Absent, Goal: Goal{Kind: Serve}})
		}
		slots[3].Granted = true
		if ds := Pool(slots, 20, policy(), t0); len(ds) != 7 {
			t.Fatalf("%d starts granted beside one under way, of 8", len(ds))
		}
	})
}

func TestScaledAwayIsForgotten(t *testing.T) {
	l := serving(t).hear(Asked{Goal{Kind: Retire, Why: "scaled down to 0"}}).ok().ok()
	if !l.s.Dropped {
		t.Fatalf("%+v", l.s)
	}
}
