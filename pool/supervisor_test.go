package pool

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/providers"
)

func TestAPoolGrowsServesAndGoesDown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		session := w.claim(1)
		w.within(10*time.Second, "web-1 busy", func() bool { s := w.worker(1).Session; return s != nil && s.ID == session })
		if got := w.pool(); got.Busy != 1 || got.Idle != 1 || !strings.Contains(got.Detail, "1 of 2 workers busy") {
			t.Errorf("status: %+v", got)
		}
		if _, err := w.super.Down(context.Background(), control.DownRequest{}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Minute, "web-0 gone, web-1 waited for", func() bool { return len(w.provider.alive()) == 1 })
		if got := w.pool().Detail; !strings.Contains(got, "waits for web-1, which serves "+session) {
			t.Errorf("going down says %q", got)
		}
		if err := w.double.Terminate(session); err != nil {
			t.Fatal(err)
		}
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		w.leave = nil
		if left := w.provider.count(); left != 0 {
			t.Errorf("%d sandboxes left behind", left)
		}
		if m, err := Recall(w.dir); m.Down == "" || err != nil {
			t.Errorf("the records do not say that it was taken down: %+v, %v", m, err)
		}
	})
}

// Promise 5: a crash of pool costs nothing.
func TestAfterACrashTheSameWorkersAreAdopted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		session := w.claim(0)
		w.within(10*time.Second, "web-0 busy", func() bool { return w.worker(0).Session != nil })
		before := w.provider.alive()
		for range 3 {
			w.crash()
			w.start()
			w.within(time.Minute, "all found again", func() bool { p := w.pool(); return p.Running == 2 && p.Busy == 1 })
		}
		if got := w.provider.alive(); fmt.Sprint(sorted(got)) != fmt.Sprint(sorted(before)) {
			t.Errorf("workers %v, before the crashes %v", got, before)
		}
		if s := w.worker(0).Session; s == nil || s.ID != session || w.worker(0).RestartsTotal != 0 {
			t.Errorf("after the crashes: %+v", w.worker(0))
		}
	})
}

// Promise 3: nothing is forgotten, at the end of down either.
func TestDownRemovesWhatNoSlotKnows(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		stray := func(uid string, slot int) {
			t.Helper()
			if _, err := w.provider.Create(t.Context(), providers.Spec{
				Name: SandboxName("web", uid, slot, 1), Labels: providers.Labels{Pool: "web", UID: uid, Slot: slot, Generation: 1},
			}); err != nil {
				t.Fatal(err)
			}
		}
		stray("abcdefgh", 7)
		stray("stranger", 0)
		if _, err := w.super.Down(context.Background(), control.DownRequest{}); err != nil {
			t.Fatal(err)
		}
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		w.leave = nil
		if left := w.provider.names(); fmt.Sprint(left) != "[web-stranger-0-g1]" {
			t.Errorf("left: %v; want the stranger's alone", left)
		}
	})
}

func TestALeftoverGoesAtItsSecondSighting(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		if _, err := w.provider.Create(t.Context(), providers.Spec{
			Name: "web-abcdefgh-7-g1", Labels: providers.Labels{Pool: "web", UID: "abcdefgh", Slot: 7, Generation: 1},
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sweepEvery + probeEvery)
		if n := w.provider.count(); n != 3 {
			t.Errorf("%d sandboxes after one sighting, want 3", n)
		}
		w.within(2*sweepEvery, "removed", func() bool { return w.provider.count() == 2 })
	})
}

// Losing the records loses history, not sandboxes.
func TestLostRecordsLoseNoSandbox(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		before := w.provider.alive()
		w.crash()
		w.loseRecords()
		w.start()
		w.idle(2)
		if got := w.provider.alive(); fmt.Sprint(sorted(got)) != fmt.Sprint(sorted(before)) {
			t.Errorf("workers %v, before %v", got, before)
		}
	})
}

// Killed while a worker stands still for a look at its claims: the next
// supervisor finishes the stop, or, knowing nothing of it, lets it go on.
func TestACrashLeavesNoWorkerStandingStill(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("records lost %t", lost), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				w.idle(2)
				if _, err := w.super.Drain(context.Background(), "0", control.WorkerAction{}); err != nil {
					t.Fatal(err)
				}
				w.within(time.Second, "web-0 stands still", func() bool { return w.provider.stopped(0) })
				w.provider.setGate(func(_ context.Context, op, _ string) error {
					if op == "signal CONT" {
						return providers.Errorf(providers.Unknown, op, "a killed supervisor sends nothing")
					}
					return nil
				})
				w.crash()
				w.provider.setGate(nil)
				if !w.provider.stopped(0) {
					t.Fatal("the worker does not stand still: this test shows nothing")
				}
				if lost {
					w.loseRecords()
					w.start()
					w.idle(2)
					if w.provider.stopped(0) || w.provider.launches() != 2 {
						t.Errorf("stands still: %t, launched %d", w.provider.stopped(0), w.provider.launches())
					}
					return
				}
				w.start()
				w.within(time.Minute, "the drain is finished", func() bool { return w.worker(0).State == "absent" })
			})
		})
	}
}

// Killed between two steps: the unfinished intent is carried out again, once.
func TestAnInterruptedStartIsFinishedOnce(t *testing.T) {
	for _, op := range []string{"create", "launch", "info", "process"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.change = func(s *Settings) { s.Workers = 1 }
				w.provider.setGate(func(ctx context.Context, at, _ string) error {
					if at == op {
						<-ctx.Done() // whether it happened is not known
						return providers.Errorf(providers.Unknown, at, "no answer: %w", ctx.Err())
					}
					return nil
				})
				w.start()
				time.Sleep(10 * time.Second)
				w.crash()
				w.provider.setGate(nil)
				w.start()
				w.idle(1)
				if n := w.provider.count(); n != 1 {
					t.Errorf("%d sandboxes", n)
				}
				if n := w.provider.launches(); n != 1 {
					t.Errorf("launched %d times", n)
				}
			})
		})
	}
}

// reports.md: overscaling while new ones still start.
func TestSlowStartsAreNotOvershot(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change = func(s *Settings) { s.Workers = 3 }
		w.provider.setGate(func(ctx context.Context, op, _ string) error {
			if op == "create" {
				time.Sleep(time.Minute)
			}
			return nil
		})
		w.start()
		w.within(3*time.Minute, "three idle", func() bool { return w.pool().Idle == 3 })
		if n := w.provider.count(); n != 3 {
			t.Errorf("%d sandboxes", n)
		}
	})
}

// A stop that meets a session lets it be served.
func TestAClaimThatComesBeforeTheStopIsServed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		if _, err := w.super.Drain(context.Background(), "web-0", control.WorkerAction{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // it stands still while claims are read
		session := w.claim(0)
		w.within(20*time.Second, "draining, not stopped", func() bool { s := w.worker(0); return s.State == "draining" && s.Session != nil })
		time.Sleep(4 * time.Minute) // within the claim's life
		if got := w.worker(0); got.PID == 0 || got.Served != 1 || got.Session.ID != session {
			t.Fatalf("cut off: %+v", got)
		}
		if err := w.double.Terminate(session); err != nil {
			t.Fatal(err)
		}
		w.within(time.Minute, "drained", func() bool { return w.worker(0).State == "absent" })
		if _, err := w.super.Undrain(context.Background(), "0"); err != nil {
			t.Fatal(err)
		}
		w.idle(2)
	})
}

func TestScalingDownTakesIdleOnesFirstAndWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change = func(s *Settings) { s.Workers = 4 }
		w.start()
		w.idle(4)
		sessions := []string{w.claim(0), w.claim(2), w.claim(3)}
		w.within(10*time.Second, "three busy", func() bool { return w.pool().Busy == 3 })
		if _, err := w.super.Scale(context.Background(), control.ScaleRequest{Workers: 1}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Minute, "the idle one is gone", func() bool { return len(w.pool().Workers) == 3 })
		if len(w.provider.alive()) != 3 {
			t.Fatalf("alive: %v", w.provider.alive())
		}
		for _, s := range sessions {
			if err := w.double.Terminate(s); err != nil {
				t.Fatal(err)
			}
		}
		w.within(time.Minute, "one left", func() bool { p := w.pool(); return len(p.Workers) == 1 && p.Running == 1 })
	})
}

func TestTheSameSizeAgainIsNoNewCommand(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		scale := func(n int) control.ScaleResult {
			t.Helper()
			r, err := w.super.Scale(context.Background(), control.ScaleRequest{Workers: n})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := scale(3); !r.Changed || r.Was != 2 {
			t.Errorf("%+v", r)
		}
		if r := scale(3); r.Changed {
			t.Errorf("%+v", r)
		}
		w.crash()
		w.start()
		w.idle(3)
		if _, err := w.super.Scale(context.Background(), control.ScaleRequest{Workers: -1}); err == nil {
			t.Error("-1 is accepted as a size")
		}
	})
}

func TestAScaleForAWhileEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		if _, err := w.super.Scale(context.Background(), control.ScaleRequest{Workers: 3, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w.idle(3)
		w.crash()
		w.start() // it is remembered over a restart
		w.idle(3)
		time.Sleep(time.Hour)
		w.idle(2)
		if rule := w.pool().SizeRule; rule.Source != "config" {
			t.Errorf("ruled by %+v", rule)
		}
	})
}

// reports.md: a second Ctrl-C leaves at once, also while a call hangs.
func TestLeavingDoesNotWaitForAHungCall(t *testing.T) {
	inWorld(t, func(w *world) {
		never := make(chan struct{})
		w.provider.setGate(func(_ context.Context, op, name string) error {
			if op == "create" && strings.Contains(name, "-0-") {
				<-never // heeds no cancellation
			}
			return nil
		})
		w.start()
		time.Sleep(20 * time.Second)
		began := time.Now()
		w.crash()
		if took := time.Since(began); took > leavePatience+time.Second {
			t.Errorf("left after %s", took)
		}
		close(never)
	})
}
