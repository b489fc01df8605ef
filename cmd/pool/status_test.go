package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

var moment = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

// samplePool has a worker in each trouble that matters, and a healthy one.
func samplePool() control.Pool {
	ago := func(d time.Duration) time.Time { return moment.Add(-d) }
	return control.Pool{
		Name: "web", Now: moment, State: control.PoolDegraded, Detail: "2 sessions wait, 1 of 1 worker busy", Desired: 3, Running: 2,
		SizeRule: control.SizeRule{Source: "config"}, API: control.API{State: "ok"}, Token: control.Token{State: "accepted"},
		Workers: []control.Worker{
			{Name: "web-0", State: "busy", Health: control.Healthy, Session: &control.Session{ID: "devin-1", Since: ago(75 * time.Second)},
				Started: ago(26 * time.Hour), CPU: 1.25, Memory: 3 << 30, Acceptor: "web-abcd1234-0", Generation: 2, Sandbox: "web-abcd1234-0-g2",
				PID: 4711, Expires: moment.Add(90 * time.Minute), Workspace: "/workspace"},
			{Name: "web-1", Slot: 1, State: "backoff", Reason: "exit code 1 after 3 s", Health: control.Broken, RestartsTotal: 7, RestartsLately: 5,
				Marks:    []control.Mark{{Name: "crash-looping", Reason: "5 failures in 4 minutes"}},
				LastExit: &control.Exit{Code: 1, Known: true, At: ago(5 * time.Second)}, NextStart: moment.Add(4 * time.Minute), CPU: -1, Memory: -1, Acceptor: "web-abcd1234-1", Generation: 1},
			{Name: "web-2", Slot: 2, State: "draining", Reason: "scaled down to 2", Health: control.Unwell, Waits: "devin-2, until 05:00 at the latest",
				Session: &control.Session{ID: "devin-2", Since: ago(3 * time.Hour), Stale: true}, Started: ago(4 * time.Hour), CPU: 0, Memory: 512 << 20, Acceptor: "web-abcd1234-2", Generation: 1},
		},
	}
}

const wantStatus = `web is degraded: 2 sessions wait, 1 of 1 worker busy

NAME   STATE                  SESSION   AGE    RESTARTS      LAST EXIT       UPTIME  CPU   MEM
web-0  busy                   devin-1   1m15s  0             -               1d02h   1.25  3.0 GiB
web-1  backoff,crash-looping  -         -      7 (5 lately)  code 1, 5s ago  -       -     -
web-2  draining               devin-2?  3h00m  0             -               4h00m   0.00  512 MiB

! web-1 backoff: exit code 1 after 3 s; crash-looping: 5 failures in 4 minutes; next start in 4m00s
    it is still tried at the longest delay; look at: pool logs web-1 · pool exec web-1 -- sh
· web-2 draining: scaled down to 2; waits for devin-2, until 05:00 at the latest
    take it back with: pool undrain web-2 · end it now with: pool drain --now web-2
`

func TestRenderStatus(t *testing.T) {
	if diff := cmp.Diff(wantStatus, ansi.Strip(renderStatus(samplePool(), false, 0))); diff != "" {
		t.Error(diff)
	}
}

func TestRenderStatusNarrow(t *testing.T) {
	for _, line := range strings.Split(renderStatus(samplePool(), true, 60), "\n")[2:6] {
		if ansi.StringWidth(line) > 60 {
			t.Errorf("%d columns: %q", ansi.StringWidth(line), line)
		}
	}
}

func TestRenderStatusWide(t *testing.T) {
	lines := strings.Split(ansi.Strip(renderStatus(samplePool(), true, 0)), "\n")
	if want := "GEN  SANDBOX            PID   ACCEPTOR        EXPIRES   WORKSPACE"; !strings.HasSuffix(lines[2], want) {
		t.Errorf("%q", lines[2])
	}
	if want := "2    web-abcd1234-0-g2  4711  web-abcd1234-0  in 1h30m  /workspace"; !strings.HasSuffix(lines[3], want) {
		t.Errorf("%q", lines[3])
	}
}

func TestRenderStatusSaysWhatIsNoteworthy(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*control.Pool)
		want string
	}{
		"size": {func(p *control.Pool) {
			p.SizeRule = control.SizeRule{Source: "scale", Until: moment.Add(2 * time.Hour)}
		}, "size: 3 by scale until 05:00:00"},
		"stale": {func(p *control.Pool) {
			p.API = control.API{State: "stale", StaleSince: moment.Add(-time.Minute), Detail: "503"}
		}, "does not answer for 1m00s; busy and idle are as last seen (503)"},
		"no view":  {func(p *control.Pool) { p.API.State = "off" }, "no session view"},
		"refused":  {func(p *control.Pool) { p.API.State = "unauthorized" }, "Devin Cloud refuses the token"},
		"token":    {func(p *control.Pool) { p.Token = control.Token{State: "rejected", Source: "the file t"} }, "the token from the file t is rejected"},
		"note":     {func(p *control.Pool) { p.Notes = []string{"without walls"} }, "note: without walls"},
		"held":     {func(p *control.Pool) { p.Workers[0].State = "held"; p.Workers[0].Reason = "401" }, "web-0 held: 401"},
		"away":     {mark("unreachable", "no answer for 5 min"), "pool restart --force web-0"},
		"outdated": {mark("outdated", "another image"), "web-0 outdated: another image"},
		"expiring": {mark("expiring", "ends at 04:00"), "web-0 expiring: ends at 04:00"},
		"deaf":     {mark("deaf", "devin-9 waits"), "sessions wait and it takes none"},
		"hostile":  {func(p *control.Pool) { p.Workers[0].Session.ID = "x\x1b]52;c;aGk=\ay" }, "xy"},
	} {
		p := samplePool()
		c.edit(&p)
		if got := renderStatus(p, false, 0); !strings.Contains(ansi.Strip(got), c.want) || strings.Contains(got, "]52") {
			t.Errorf("%s: no %q in\n%s", name, c.want, got)
		}
	}
}

func mark(name, reason string) func(*control.Pool) {
	return func(p *control.Pool) { p.Workers[0].Marks = []control.Mark{{Name: name, Reason: reason}} }
}

func TestRenderEvent(t *testing.T) {
	e := control.Event{At: moment, Worker: "web-0", Kind: "exit", From: "busy", To: "backoff", Reason: "exit code 1", Fields: map[string]string{"b": "2", "a": "1", "tail": "x\ny"}}
	if got, want := ansi.Strip(renderEvent(e, time.UTC)), "2026-12-01 03:00:00  web-0     busy → backoff: exit code 1  a=1 b=2"; got != want {
		t.Errorf("%q", got)
	}
	if got, want := ansi.Strip(renderEvent(control.Event{At: moment, Kind: "api", Reason: "back"}, time.UTC)), "2026-12-01 03:00:00  pool      api: back"; got != want {
		t.Errorf("%q", got)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m00s", 59*time.Minute + 59*time.Second: "59m59s",
		time.Hour: "1h00m", 24*time.Hour - 1: "23h59m", 49 * time.Hour: "2d01h",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestParseSinceAndTail(t *testing.T) {
	for text, want := range map[string]time.Time{"": {}, "10m": moment.Add(-10 * time.Minute), "2026-11-30T00:00:00Z": time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)} {
		if got, err := parseSince(text, moment); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"-5m", "noon", "10"} {
		if _, err := parseSince(text, moment); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	for text, want := range map[string]int{"all": -1, "0": 0, "7": 7} {
		if got, err := parseTail(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for want, errs := range map[int][]error{
		exitOK:          {nil, fmt.Errorf("write: %w", syscall.EPIPE)},
		exitFailure:     {io.ErrUnexpectedEOF, control.Fail(control.CodeConflict, "no", "")},
		exitUsage:       {failWith(exitUsage, "no")},
		exitNotRunning:  {fmt.Errorf("%w", control.ErrNotRunning), errors.Join(errors.New("a"), control.ErrNotRunning)},
		exitTimeout:     {context.DeadlineExceeded},
		exitInterrupted: {context.Canceled},
		77:              {cli.Exit("", 77)},
	} {
		for _, err := range errs {
			if got := exitCodeOf(err); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		}
	}
}
