package outposttest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// output collects what a worker prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// hand is one worker in this process.
type hand struct {
	Worker
	out output
}

func (b *bench) hand(acceptor string, more ...string) *hand {
	dir := b.t.TempDir()
	h := &hand{}
	h.Worker = Worker{
		Args: []string{"worker", "start", "--outpost=web"},
		Env: append([]string{
			"HOME=" + filepath.Join(dir, ".home"), "DEVIN_OUTPOSTS_TOKEN=" + token, "DEVIN_API_URL=http://double",
			"DEVIN_WORKER_ACCEPTOR_ID=" + acceptor,
		}, more...),
		Dir: dir, HTTP: b.http, Stdout: &h.out, Stderr: &h.out,
	}
	return h
}

func (h *hand) run(t *testing.T) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- h.Run(ctx) }()
	return func() int { cancel(); return <-code }
}

func TestWorkersServeTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Seed: 3})
		// More at once than four can serve, so that each gets some.
		go b.Feed(t.Context(), Feed{Sessions: 24, Every: 500 * time.Millisecond, For: [2]time.Duration{3 * time.Second, 6 * time.Second}})
		var hands []*hand
		var stops []func() int
		for i := range 4 {
			h := b.hand(fmt.Sprintf("web-%d", i))
			hands = append(hands, h)
			stops = append(stops, h.run(t))
		}
		time.Sleep(2 * time.Minute)
		state := b.State()
		if state.Served != 24 || len(state.Violations) != 0 {
			t.Errorf("served %d of 24, violations %v", state.Served, state.Violations)
		}
		for _, e := range state.Sessions {
			if len(e.Holders) != 1 || !e.Done {
				t.Errorf("%s was held by %v, done %v", e.ID, e.Holders, e.Done)
			}
		}
		for i, stop := range stops {
			if code := stop(); code != 0 {
				t.Errorf("worker %d ended with %d: %s", i, code, &hands[i].out)
			}
			repos, _ := os.ReadDir(filepath.Join(hands[i].Dir, "repos"))
			proof, err := os.ReadFile(filepath.Join(hands[i].Dir, "outpost-proof.txt"))
			if len(repos) == 0 || err != nil || !strings.Contains(string(proof), fmt.Sprintf("served by web-%d", i)) {
				t.Errorf("worker %d: %d repos, proof %q, %v", i, len(repos), proof, err)
			}
			left, _ := os.ReadDir(filepath.Join(hands[i].Dir, ".home/.devin/worker/sessions"))
			if len(left) != 0 {
				t.Errorf("worker %d kept the state of %d sessions", i, len(left))
			}
		}
	})
}

func TestALongSessionIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, form := range []string{ShapeExtraFields, ShapeDeadlineMillis, ShapeDeadlineISO} {
			b := newBench(t, Options{})
			b.SetFault(Fault{Kind: form})
			id := b.add(NewSession{Script: Script{For: 20 * time.Minute}})
			stop := b.hand("web-0").run(t)
			time.Sleep(21 * time.Minute)
			stop()
			renewals := 0
			for _, e := range b.History() {
				if e.Kind == "renewed" {
					renewals++
				}
			}
			// Every 100 s of 1200.
			if !b.session(id).Done || renewals < 10 || renewals > 13 {
				t.Errorf("%s: done %v after %d renewals", form, b.session(id).Done, renewals)
			}
		}
	})
}

func TestARestartedWorkerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		id := b.add(NewSession{Script: Script{For: time.Minute}})
		h := b.hand("web-0")
		stop := h.run(t)
		time.Sleep(20 * time.Second)
		if code := stop(); code != 0 {
			t.Fatalf("stopped with %d", code)
		}
		if got := b.session(id); got.Acceptor != "web-0" || got.Status != "running" {
			t.Fatalf("after the stop: %+v", got)
		}
		if left, _ := os.ReadDir(filepath.Join(h.Dir, ".home/.devin/worker/sessions", id)); len(left) != 1 {
			t.Errorf("the session's state is gone")
		}
		other := b.hand("web-1").run(t) // must not get it
		time.Sleep(5 * time.Second)
		stop = h.run(t)
		time.Sleep(36 * time.Second)
		if got := b.session(id); !got.Done || len(got.Holders) != 1 {
			t.Errorf("in the end: %+v", got)
		}
		stop()
		other()
		if v := b.Violations(); len(v) != 0 {
			t.Error(v)
		}
	})
}

func TestSessionsSleepAndWakeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []string{ShapeExtraFields, ShapeKeepSuspended, ShapeLeftovers} {
			b := newBench(t, Options{})
			b.SetFault(Fault{Kind: fault})
			id := b.add(NewSession{Script: Script{For: 30 * time.Second, SuspendAfter: 10 * time.Second, ResumeAfter: time.Minute}})
			stops := []func() int{b.hand("web-0").run(t), b.hand("web-1").run(t)}
			time.Sleep(30 * time.Second)
			if got := b.session(id).Status; got != "suspended" {
				t.Errorf("%s: %s, want suspended", fault, got)
			}
			time.Sleep(90 * time.Second)
			if got := b.session(id); !got.Done || len(got.Holders) != 2 || got.Kind != "resume" {
				t.Errorf("%s: in the end: %+v", fault, got)
			}
			for _, stop := range stops {
				stop()
			}
			if v := b.Violations(); len(v) != 0 {
				t.Errorf("%s: %v", fault, v)
			}
		}
	})
}

func TestTheCloudEndsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		h := b.hand("web-0")
		defer h.run(t)()
		for _, end := range []func(string) error{b.Terminate, b.Suspend} {
			id := b.add(NewSession{})
			time.Sleep(10 * time.Second)
			if b.session(id).Status != "running" {
				t.Fatalf("not served: %s", &h.out)
			}
			end(id)
			time.Sleep(10 * time.Second)
		}
		if n := strings.Count(h.out.String(), ": over\n"); n != 2 {
			t.Errorf("noticed %d ends:\n%s", n, &h.out)
		}
	})
}

func TestAFlickerOfSuspendedEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		id := b.add(NewSession{Script: Script{For: time.Minute}})
		b.SetFault(Fault{Kind: ShapeFlapSuspended, Count: 2, Op: OpGet})
		h := b.hand("web-0")
		stop := h.run(t)
		time.Sleep(70 * time.Second)
		if !b.session(id).Done || strings.Contains(h.out.String(), endAsleep) {
			t.Errorf("not served in one go: %s", &h.out)
		}
		stop()
	})
}

func TestAnOutageIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []Fault{{Kind: FaultStatus, Status: 500}, {Kind: FaultStatus, Status: 429}, {Kind: FaultCut}, {Kind: FaultHTML}} {
			b := newBench(t, Options{})
			outage, _ := b.SetFault(fault)
			id := b.add(NewSession{Script: Script{For: 20 * time.Second}})
			h := b.hand("web-0")
			stop := h.run(t)
			time.Sleep(30 * time.Second)
			b.ClearFaults(outage)
			time.Sleep(10 * time.Second)
			b.SetFault(fault) // and once more while it serves
			time.Sleep(30 * time.Second)
			b.ClearFaults()
			time.Sleep(10 * time.Second)
			if !b.session(id).Done {
				t.Errorf("%+v: not served: %s", fault, &h.out)
			}
			if code := stop(); code != 0 {
				t.Errorf("%+v: ended with %d", fault, code)
			}
		}
	})
}

func TestWhatAWorkerCannotStartWith(t *testing.T) {
	strange := "windows"
	for name, c := range map[string]struct {
		args  []string
		env   []string
		code  int
		print string
	}{
		"no token":            {[]string{"start", "--outpost", "web"}, []string{"DEVIN_OUTPOSTS_TOKEN="}, 2, "no token"},
		"no outpost":          {[]string{"start"}, nil, 2, "no outpost"},
		"unknown outpost":     {[]string{"start", "--outpost", "none"}, nil, 1, "it sees strange, web"},
		"another platform":    {[]string{"start", "--outpost", "strange"}, nil, 1, "is for windows, this machine is"},
		"a rejected token":    {[]string{"start", "--outpost", "web", "--token", "bad"}, nil, 1, "the token is rejected (401"},
		"an unknown flag":     {[]string{"start", "--outpost", "web", "--turbo"}, nil, 2, "turbo"},
		"a stray argument":    {[]string{"start", "--outpost", "web", "now"}, nil, 2, "unexpected argument"},
		"only --pool":         {[]string{"start", "--outpost", "web"}, []string{"POOLTEST_ONLY_POOL=1"}, 2, "outpost"},
		"no subcommand":       {nil, nil, 2, "worker start"},
		"a misspelled habit":  {[]string{"start", "--outpost", "web"}, []string{"POOLTEST_CRUSH=1"}, 2, "POOLTEST_CRUSH"},
		"a malformed habit":   {[]string{"start", "--outpost", "web"}, []string{"POOLTEST_FORK=long"}, 2, "POOLTEST_FORK"},
		"a session that's no": {[]string{"start", "--outpost", "web", "--session", "devin-none"}, nil, 1, "cannot be claimed"},
		"an impossible URL":   {[]string{"start", "--outpost", "web", "--api-url", "ftp://x"}, nil, 2, "https and http"},
		"a URL with a path":   {[]string{"start", "--outpost", "web", "--api-url", "http://double/opbeta"}, nil, 2, "origin alone"},
		"a crash":             {[]string{"start", "--outpost", "web"}, []string{"POOLTEST_CRASH=1"}, 1, "crashed on purpose"},
		"the version":         {[]string{"--version"}, nil, 0, "devin 3000.11.3 (double)\n"},
		"help":                {[]string{"worker", "start", "--help"}, nil, 0, "--outpost <NAME_OR_ID>"},
		"help of June":        {[]string{"start", "--help"}, []string{"POOLTEST_ONLY_POOL=1"}, 0, "--pool <NAME_OR_ID>"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{Tokens: []string{token}})
			b.AddOutpost(Outpost{Name: "strange", Platform: strange})
			h := b.hand("web-0", c.env...)
			h.Args = c.args
			if code := h.Run(t.Context()); code != c.code || !strings.Contains(h.out.String(), c.print) {
				t.Errorf("ended with %d, want %d, and said %q", code, c.code, &h.out)
			}
			if strings.Contains(h.out.String(), token) {
				t.Errorf("the token was printed: %s", &h.out)
			}
			if n := len(b.State().Outposts); n != 2 {
				t.Errorf("there are %d outposts now", n)
			}
		})
	}
}

func TestOnceAndOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		first := b.add(NewSession{Script: Script{For: time.Second}})
		second := b.add(NewSession{Script: Script{For: time.Second}})
		chosen := b.hand("web-0")
		chosen.Args = append(chosen.Args, "--session", second)
		if code := chosen.Run(t.Context()); code != 0 || !b.session(second).Done || b.session(first).Done {
			t.Errorf("--session: code %d: %s", code, &chosen.out)
		}
		third := b.add(NewSession{Script: Script{For: time.Second}})
		once := b.hand("web-0")
		once.Args = append(once.Args, "--once")
		if code := once.Run(t.Context()); code != 0 || !b.session(first).Done || b.session(third).Done {
			t.Errorf("--once: code %d: %s", code, &once.out)
		}
	})
}

func TestThePromptIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.add(NewSession{Script: Script{For: time.Second, Prompt: `Please write "proof-4711" to outpost-proof.txt.`, Files: map[string]string{"repos/app/x": "y"}, Lines: []string{"hello"}}})
		h := b.hand("web-0")
		h.Args = append(h.Args, "--once")
		h.Run(t.Context())
		proof, _ := os.ReadFile(filepath.Join(h.Dir, "outpost-proof.txt"))
		extra, _ := os.ReadFile(filepath.Join(h.Dir, "repos/app/x"))
		if string(proof) != "proof-4711\n" || string(extra) != "y" || !strings.Contains(h.out.String(), "hello\n") {
			t.Errorf("proof %q, extra %q, said %s", proof, extra, &h.out)
		}
		b.add(NewSession{Script: Script{For: time.Second, Prompt: `write "x" to ../outside`}})
		if code := h.Run(t.Context()); code != 1 {
			t.Errorf("writing outside of the workspace: code %d", code)
		}
	})
}

func TestPrompts(t *testing.T) {
	for prompt, want := range map[string][3]any{
		`write "a b" to f.txt`:                         {"f.txt", "a b\n", true},
		"Write 'x' into the file `d/f.txt`.":           {"d/f.txt", "x\n", true},
		"please\nWRITE \"x\" to outpost-proof.txt, ok": {"outpost-proof.txt", "x\n", true},
		"write a poem":                                 {"", "", false},
	} {
		file, content, asked := asksFor(prompt)
		if diff := cmp.Diff(want, [3]any{file, content, asked}); diff != "" {
			t.Errorf("%q: %s", prompt, diff)
		}
	}
}

func TestHabits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		run := func(d time.Duration, habits ...string) (string, int) {
			h := b.hand("web-0", habits...)
			stop := h.run(t)
			time.Sleep(d)
			code := stop()
			return h.out.String(), code
		}
		if out, _ := run(10*time.Second, "POOLTEST_PRINT=10"); strings.Count(out, "\nline ") < 98 || strings.Count(out, "\nline ") > 101 {
			t.Errorf("10 lines a second for 10 s: %d", strings.Count(out, "\nline "))
		}
		if out, _ := run(5*time.Second, "POOLTEST_FLOOD=1000000"); len(out) < 4_900_000 || len(out) > 5_100_000 {
			t.Errorf("1 MB a second for 5 s: %d", len(out))
		}
		if out, _ := run(10*time.Second, "POOLTEST_ENDLESS=1"); !strings.Contains(out, strings.Repeat("endless ", 20_000)) {
			t.Error("the endless line ends")
		}
		if out, _ := run(time.Second, "POOLTEST_BINARY=1", "POOLTEST_ESCAPES=1", "POOLTEST_WIDE=1"); !strings.Contains(out, "\x00\x01\x02") || !strings.Contains(out, "\x1b]52;") || !strings.Contains(out, "宽") {
			t.Error("no oddities")
		}
		if out, _ := run(time.Second, "POOLTEST_PRINT_TOKEN=1"); strings.Count(out, token) != 2 {
			t.Errorf("the token shows %d times", strings.Count(out, token))
		}
		requests := b.Requests()[OpList]
		if out, code := run(time.Hour, "POOLTEST_HANG=1"); !strings.Contains(out, "hanging") || code != 0 || b.Requests()[OpList] != requests {
			t.Error("a hanging worker polls")
		}
		began := time.Now()
		h := b.hand("web-0", "POOLTEST_EXIT=7", "POOLTEST_EXIT_AFTER=3s")
		if code := h.Run(t.Context()); code != 7 || time.Since(began) != 3*time.Second {
			t.Errorf("code %d after %s", code, time.Since(began))
		}
		stop := b.hand("web-0", "POOLTEST_STOP_TAKES=5s").run(t)
		time.Sleep(time.Second)
		began = time.Now()
		if code := stop(); code != 0 || time.Since(began) != 5*time.Second {
			t.Errorf("code %d, %s after the stop", code, time.Since(began))
		}
		stop = b.hand("web-0", "POOLTEST_IGNORE_TERM=1", "POOLTEST_EXIT=9", "POOLTEST_EXIT_AFTER=1m").run(t)
		began = time.Now()
		if code := stop(); code != 9 || time.Since(began) != time.Minute {
			t.Errorf("ignoring TERM: code %d after %s", code, time.Since(began))
		}
		id := b.add(NewSession{})
		if run(10*time.Second, "POOLTEST_RELEASE=1"); b.session(id).Phase != "pending" {
			t.Error("the claim was not given back")
		}
		if run(10 * time.Second); b.session(id).Phase != "claimed" {
			t.Error("the claim was given back unasked")
		}
	})
}

func TestTwoWorkersWithOneIdentityAreCaught(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		first := b.hand("web-0").run(t)
		time.Sleep(7 * time.Second)
		first()
		second := b.hand("web-0").run(t)
		time.Sleep(20 * time.Second)
		if v := b.Violations(); len(v) != 0 {
			t.Fatalf("one after the other: %v", v)
		}
		third := b.hand("web-0").run(t)
		time.Sleep(20 * time.Second)
		second()
		third()
		if v := b.Violations(); len(v) != 1 || v[0].Kind != TwoLives || v[0].Acceptor != "web-0" {
			t.Errorf("got %v", v)
		}
	})
}

func TestAnAcceptorIDIsMadeOnceAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		h := b.hand("")
		for range 2 {
			id := b.add(NewSession{Script: Script{For: time.Second}})
			stop := h.run(t)
			time.Sleep(10 * time.Second)
			stop()
			if holders := b.session(id).Holders; len(holders) != 1 || !strings.HasPrefix(holders[0], "worker-") {
				t.Errorf("held by %v", holders)
			}
		}
		all := b.State().Sessions
		if all[0].Holders[0] != all[1].Holders[0] {
			t.Errorf("%v, then %v", all[0].Holders, all[1].Holders)
		}
	})
}
