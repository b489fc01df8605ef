package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

// Promise 8: one slot's hanging call delays no other slot.
func TestAHangingSlotDelaysNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		w.provider.setGate(func(ctx context.Context, op, name string) error {
			if op != "list" && strings.Contains(name, "-0-g") {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		began := time.Now()
		w.start()
		w.within(10*time.Second, "web-1 idle", func() bool { return w.worker(1).State == "idle" })
		w.provider.kill(1, 1)
		w.within(10*time.Second, "web-1 restarted", func() bool { return w.worker(1).RestartsTotal == 1 && w.worker(1).PID != 0 })
		if _, err := w.super.Down(context.Background(), control.DownRequest{Now: true}); err != nil {
			t.Fatal(err)
		}
		// The hung slot's removal hangs too, within its deadline; the other is
		// gone long before.
		w.within(10*time.Second, "web-1 gone", func() bool { return w.worker(1).State == "absent" })
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %s", took)
		}
		w.provider.setGate(nil)
	})
}

// Promise 4: unknown is not dead.
func TestAProviderThatDoesNotAnswerChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		before := w.provider.alive()
		w.crash()
		w.provider.setGate(func(context.Context, string, string) error {
			return providers.Errorf(providers.Unknown, "ask", "the line is dead")
		})
		w.start()
		w.within(time.Minute, "marked unreachable", func() bool { return len(w.worker(0).Marks) > 0 && w.worker(0).Health == control.Broken })
		time.Sleep(time.Hour)
		if got := w.pool(); got.Workers[0].State != "idle" || got.Workers[0].RestartsTotal != 0 {
			t.Errorf("an hour later: %+v", got.Workers[0])
		}
		w.provider.setGate(nil)
		w.within(2*time.Minute, "it answers again", func() bool { return len(w.worker(0).Marks) == 0 })
		if got := w.provider.alive(); fmt.Sprint(sorted(got)) != fmt.Sprint(sorted(before)) {
			t.Errorf("workers %v, before %v", got, before)
		}
	})
}

// reports.md: a sandbox deleted behind our back is noticed within one interval,
// replaced, and counted as a restart with its reason.
func TestASandboxDeletedBehindOurBackIsReplaced(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		w.provider.vanish(1)
		w.within(probeEvery+30*time.Second, "web-1 again", func() bool {
			got := w.worker(1)
			return got.State == "idle" && got.Generation == 2 && got.RestartsTotal == 1
		})
		if w.worker(0).RestartsTotal != 0 {
			t.Error("the other one was restarted")
		}
	})
}

// Promise 6: a rejected token stops restarts at once; they resume by
// themselves. reports.md: one message, no more than a few calls a minute.
func TestARejectedTokenStopsRestarts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		w.double.SetTokens([]string{"cog_another_token"}, nil)
		w.within(time.Minute, "held", func() bool { return w.pool().State == control.PoolHeld })
		w.provider.kill(0, 1)
		w.within(10*time.Second, "web-0 held", func() bool { return w.worker(0).State == "held" })
		calls := requests(w.double)
		time.Sleep(10 * time.Minute)
		if n := requests(w.double) - calls; n > 40 {
			t.Errorf("%d calls in ten minutes", n)
		}
		if w.worker(1).State != "idle" || w.worker(0).State != "held" {
			t.Errorf("after ten minutes: %s and %s", w.worker(0).State, w.worker(1).State)
		}
		messages := 0
		_ = w.super.Events(context.Background(), control.EventQuery{}, func(e control.Event) error {
			if e.Kind == "token" {
				messages++
			}
			return nil
		})
		if messages != 1 {
			t.Errorf("%d messages about the token", messages)
		}
		w.double.SetTokens(nil, nil)
		w.idle(2)
	})
}

func requests(s *outposttest.Server) (n int) {
	for _, each := range s.Requests() {
		n += each
	}
	return n
}

// Promise 6: no storm, whatever happens.
func TestTheEndOfADrainedSessionIsSeenQuickly(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		session := w.claim(0)
		w.within(10*time.Second, "busy", func() bool { return w.worker(0).Session != nil })
		if _, err := w.super.Drain(context.Background(), "0", control.WorkerAction{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if err := w.double.Terminate(session); err != nil {
			t.Fatal(err)
		}
		w.within(1500*time.Millisecond, "its worker stands still", func() bool { return w.provider.stopped(0) })
		w.within(10*time.Second, "gone", func() bool { return w.worker(0).State == "absent" })
	})
}

func TestAWorkerThatDiesAtOnceIsRetriedSlowly(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change = func(s *Settings) { s.Workers = 1 }
		w.start()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					w.provider.kill(0, 3)
				}
			}
		}()
		time.Sleep(time.Hour)
		launched := w.provider.launches()
		if launched > 25 || launched < 10 {
			t.Errorf("%d starts within an hour", launched)
		}
		got := w.worker(0)
		if got.Health != control.Broken || got.LastExit == nil || got.LastExit.Code != 3 || !hasMark(got, "crash-looping") {
			t.Errorf("shown as %+v", got)
		}
	})
}

// Before a failed sandbox is removed its last lines go into the event.
func TestAReplacedSandboxLeavesAnEpitaph(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change = func(s *Settings) { s.Workers = 1 }
		w.start()
		for w.pool().Workers == nil || w.worker(0).Generation < 2 {
			w.idle(1)
			w.provider.kill(0, 3)
			time.Sleep(time.Minute)
		}
		var got []control.Event
		_ = w.super.Events(context.Background(), control.EventQuery{}, func(e control.Event) error {
			if e.Kind == "failed-sandbox" {
				got = append(got, e)
			}
			return nil
		})
		if len(got) != 1 || got[0].Fields["sandbox"] != "web-abcdefgh-0-g1" || !strings.Contains(got[0].Fields["log"], "worker started") || !strings.HasPrefix(got[0].Fields["exit"], "exit code 3") {
			t.Errorf("%+v", got)
		}
	})
}

func hasMark(w control.Worker, name string) bool {
	for _, m := range w.Marks {
		if m.Name == name {
			return true
		}
	}
	return false
}

// reports.md: all replicas restart together after an outage.
func TestWorkersKilledTogetherStartSpread(t *testing.T) {
	inWorld(t, func(w *world) {
		roll := 0.0
		w.change = func(s *Settings) {
			s.Workers = 16
			s.Rand = func() float64 { roll = roll*7.7 + 0.31; roll -= float64(int(roll)); return roll }
		}
		w.start()
		w.idle(16)
		for i := range 16 {
			w.provider.kill(i, 1)
		}
		w.within(time.Minute, "all again", func() bool { return w.pool().Running == 16 })
		starts := map[time.Time]bool{}
		for _, each := range w.pool().Workers {
			starts[each.Started] = true
		}
		if len(starts) < 8 {
			t.Errorf("only %d different start times", len(starts))
		}
	})
}

// Without a record there is no new intent; running workers stay and stops stay
// possible.
func TestAFullDiskStopsNothingThatRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		var log bytes.Buffer
		w.change = func(s *Settings) { s.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
		w.start()
		w.idle(2)
		w.disk.full.Store(true)
		w.provider.kill(0, 1)
		time.Sleep(time.Minute)
		if got := w.worker(0); got.State != "backoff" || len(w.provider.alive()) != 1 {
			t.Errorf("started without a record: %+v, %v", got, w.provider.alive())
		}
		if p := w.pool(); p.State != control.PoolDegraded || !strings.Contains(p.Detail, "nothing can be recorded") {
			t.Errorf("it does not say so: %s", p.Detail)
		}
		if _, err := w.super.Scale(context.Background(), control.ScaleRequest{Workers: 5}); err == nil {
			t.Error("a size that could not be recorded was accepted")
		}
		if _, err := w.super.Drain(context.Background(), "web-1", control.WorkerAction{Now: true}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Minute, "web-1 stopped", func() bool { return len(w.provider.alive()) == 0 })
		w.disk.full.Store(false)
		w.within(time.Minute, "web-0 starts once there is room", func() bool { return len(w.provider.alive()) == 1 })
		w.crash()
		if n := strings.Count(log.String(), "was=backoff now=starting"); n != 1 {
			t.Errorf("the log tells of %d starts from backoff, there was one:\n%s", n, log.String())
		}
	})
}

func TestTheAPIAwayLeavesTheLastKnownAndDecidesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		session := w.claim(0)
		w.within(10*time.Second, "busy", func() bool { return w.pool().Busy == 1 })
		if _, err := w.double.SetFault(outposttest.Fault{Kind: outposttest.FaultStatus, Status: 503}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Minute, "stale", func() bool { return w.pool().API.State == "stale" })
		if _, err := w.super.Drain(context.Background(), "web-1", control.WorkerAction{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		if got := w.worker(0); got.Session == nil || got.Session.ID != session || !got.Session.Stale {
			t.Errorf("busy shown as %+v", got.Session)
		}
		if got := w.worker(1); got.State != "draining" || got.PID == 0 {
			t.Errorf("stopped though nobody knows whether it is idle: %+v", got)
		}
		w.double.ClearFaults()
		w.within(2*time.Minute, "drained once it answers", func() bool { return w.worker(1).State == "absent" })
	})
}

func TestADeafWorkerIsRestartedOncePerSession(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change = func(s *Settings) { s.Workers = 1 }
		w.start()
		w.idle(1)
		if _, err := w.double.AddSession(outposttest.NewSession{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := w.provider.launches(); n != 2 {
			t.Errorf("launched %d times within an hour, want the start and one restart", n)
		}
		if got := w.worker(0); !hasMark(got, "deaf") {
			t.Errorf("not marked: %+v", got)
		}
	})
}

// The token is in no record, event or status.
func TestNoSecretInWhatIsKeptOrShown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.idle(2)
		w.double.SetTokens([]string{"cog_another_token"}, nil)
		w.within(time.Minute, "rejected", func() bool { return w.pool().State == control.PoolHeld })
		w.provider.kill(0, 1)
		w.within(time.Minute, "held", func() bool { return w.worker(0).State == "held" })
		shown, err := json.Marshal(w.pool())
		if err != nil {
			t.Fatal(err)
		}
		w.crash()
		err = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if strings.Contains(string(data), "cog_secret_of_the_test") {
				t.Errorf("the token is in %s", d.Name())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(shown), "cog_secret_of_the_test") {
			t.Error("the token is in the status")
		}
	})
}
