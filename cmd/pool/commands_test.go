package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/goleak"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/control/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// home makes this test's state folder that of a pool called web and returns
// the pool's own folder.
func home(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	t.Setenv("XDG_STATE_HOME", base)
	t.Setenv("POOL_NAME", "")
	t.Setenv("POOL_CONFIG", "")
	folder := filepath.Join(base, "pool", "web")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	// As the real supervisor leaves it, for whoever looks for pools.
	if err := os.WriteFile(filepath.Join(folder, "uid"), []byte("abcd1234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// clientApp has the commands of this half of the command line.
func clientApp() *cli.App {
	return &cli.App{
		Name:           "pool",
		Flags:          []cli.Flag{&cli.StringFlag{Name: "pool"}, &cli.StringFlag{Name: "config"}, quietFlag()},
		ExitErrHandler: func(*cli.Context, error) {},
		Commands: []*cli.Command{
			statusCommand(), eventsCommand(), sessionsCommand(), logsCommand(), execCommand(), cpCommand(),
			scaleCommand(), restartCommand(), drainCommand(), undrainCommand(),
		},
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

type result struct {
	code        int
	out, errors string
}

// run runs a command line as main does.
func run(t *testing.T, in io.Reader, words ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out, errs buffer
	return runWith(ctx, in, &out, &errs, words...)
}

func runWith(ctx context.Context, in io.Reader, out, errs *buffer, words ...string) result {
	app := clientApp()
	app.Reader, app.Writer, app.ErrWriter = in, out, errs
	err := app.RunContext(ctx, reorder(append([]string{"pool", "--pool", "web"}, words...), app))
	code := finish(err, errs)
	return result{code, out.String(), errs.String()}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("never came: " + what)
		}
	}
}

func serve(t *testing.T) (*controltest.Backend, string) {
	t.Helper()
	b := &controltest.Backend{}
	b.SetPool(samplePool())
	folder := home(t)
	controltest.Serve(t, folder, b, control.Options{})
	return b, folder
}

func TestWithoutASupervisor(t *testing.T) {
	home(t)
	for _, words := range [][]string{{"status"}, {"events"}, {"events", "-f"}, {"sessions"}, {"logs"}, {"scale", "2"}, {"restart", "0"}, {"cp", "web-0:a", "b"}} {
		if r := run(t, nil, words...); r.code != exitNotRunning || !strings.Contains(r.errors, "pool up") {
			t.Errorf("%v: code %d, %q", words, r.code, r.errors)
		}
	}
	if r := run(t, nil, "exec", "web-0", "true"); r.code != exitExecFailed {
		t.Errorf("exec: code %d, %q", r.code, r.errors)
	}
}

func TestUsage(t *testing.T) {
	serve(t)
	for _, words := range [][]string{
		{"status", "web-0"}, {"status", "-o", "xml"}, {"status", "--bogus"}, {"events", "a", "b"}, {"logs", "--tail", "-3"}, {"logs", "--since", "dawn"},
		{"logs", "--supervisor", "web-0"}, {"scale"}, {"scale", "many"}, {"scale", "--", "-1"}, {"scale", "2", "--for", "1h", "--pin"}, {"restart"},
		{"cp", "a", "b"}, {"cp", "web-0:a", "web-1:b"}, {"cp", "web-0:a"},
	} {
		if r := run(t, nil, words...); r.code != exitUsage || r.errors == "" {
			t.Errorf("%v: code %d, %q", words, r.code, r.errors)
		}
	}
}

func TestStatusCommand(t *testing.T) {
	serve(t)
	r := run(t, nil, "status")
	if r.code != exitOK || !strings.HasPrefix(r.out, "web is degraded: ") || strings.Contains(r.out, "\x1b") {
		t.Errorf("code %d\n%s%s", r.code, r.out, r.errors)
	}
	r = run(t, nil, "status", "-o", "json")
	for _, want := range []string{`"state": "degraded"`, `"restarts_total": 7`, `"size_rule"`, `"acceptor_id": "web-abcd1234-1"`} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %s in\n%s", want, r.out)
		}
	}
}

func TestEventsCommand(t *testing.T) {
	b, _ := serve(t)
	for range 3 {
		b.AddEvent(control.Event{Worker: "web-0", At: moment, Kind: "state", From: "idle", To: "busy", Reason: "claimed\x1b]0;x\a"})
	}
	b.AddEvent(control.Event{At: moment, Kind: "scale", Reason: "by hand"})
	if r := run(t, nil, "events", "web-0", "-n", "2"); strings.Count(r.out, "idle → busy: claimed") != 2 || strings.ContainsAny(r.out, "\x1b\a") {
		t.Errorf("%q %s", r.out, r.errors)
	}
	if r := run(t, nil, "events", "-o", "json"); !strings.Contains(r.out, `"kind": "scale"`) || !strings.HasPrefix(r.out, "[") {
		t.Error(r.out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var out, errs buffer
	ended := make(chan result, 1)
	go func() { ended <- runWith(ctx, nil, &out, &errs, "events", "-fn", "1") }()
	eventually(t, "the first event", func() bool { return strings.Contains(out.String(), "by hand") })
	b.AddEvent(control.Event{Worker: "web-1", At: moment, Kind: "note", Reason: "news"})
	eventually(t, "the news", func() bool { return strings.Contains(out.String(), "news") })
	cancel()
	if r := <-ended; r.code != exitInterrupted || r.errors != "" || strings.Contains(r.out, "idle") {
		t.Errorf("%+v", r)
	}
}

func TestSessionsCommand(t *testing.T) {
	b, _ := serve(t)
	if r := run(t, nil, "sessions"); r.code != exitOK || r.out != "" {
		t.Errorf("none: %+v", r)
	}
	b.AddSession(control.ServedSession{ID: "devin-1", Worker: "web-0", From: moment.Add(-2 * time.Hour), To: moment, End: "ended"})
	if r := run(t, nil, "sessions"); !strings.Contains(r.out, "devin-1") || !strings.Contains(r.out, "2h00m") {
		t.Error(r.out)
	}
	if r := run(t, nil, "sessions", "-o", "json"); !strings.Contains(r.out, `"worker": "web-0"`) {
		t.Error(r.out)
	}
}

func TestLogsCommand(t *testing.T) {
	b, _ := serve(t)
	b.AddLine(control.LogLine{Worker: "web-0", Text: "one \x1b[31mred"})
	b.AddLine(control.LogLine{Worker: "web-1", Text: "two"})
	b.AddLine(control.LogLine{Worker: "supervisor", Text: "mine"})
	for want, words := range map[string][]string{
		"one \x1b[31mred\n":                      {"logs", "web-0"}, // not a terminal: as it is
		"web-0 | one \x1b[31mred\nweb-1 | two\n": {"logs"},
		"mine\n":                                 {"logs", "--supervisor"},
		"":                                       {"logs", "web-0", "--tail", "0"},
	} {
		if r := run(t, nil, words...); r.out != want || r.code != exitOK {
			t.Errorf("%v: %+v", words, r)
		}
	}
	if r := run(t, nil, "logs", "web-1", "-o", "json"); !strings.Contains(r.out, `"text":"two"`) {
		t.Error(r.out)
	}
	if r := run(t, nil, "logs", "web-9"); r.code != exitFailure || !strings.Contains(r.errors, "web-9") {
		t.Errorf("%+v", r)
	}
}

func TestLogsFollowOverARestartOfTheSupervisor(t *testing.T) {
	folder := home(t)
	b := &controltest.Backend{}
	b.SetPool(samplePool())
	b.AddLine(control.LogLine{Worker: "web-0", Text: "before"})
	_, stop := controltest.Serve(t, folder, b, control.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out, errs buffer
	ended := make(chan result, 1)
	go func() { ended <- runWith(ctx, nil, &out, &errs, "logs", "web-0", "-f") }()
	eventually(t, "the first line", func() bool { return out.String() == "before\n" })
	stop()
	eventually(t, "a word about it", func() bool { return strings.Contains(errs.String(), "waiting for it") })
	b.AddLine(control.LogLine{Worker: "web-0", Text: "meanwhile"})
	controltest.Serve(t, folder, b, control.Options{})
	eventually(t, "the rest", func() bool { return out.String() == "before\nmeanwhile\n" })
	cancel()
	if r := <-ended; r.code != exitInterrupted {
		t.Errorf("%+v", r)
	}
}

func TestScaleCommand(t *testing.T) {
	b, _ := serve(t)
	if r := run(t, nil, "scale", "3"); r.code != exitOK || r.out != "" || r.errors != "" {
		t.Errorf("the same size: %+v", r)
	}
	if r := run(t, nil, "scale", "5", "--for", "2h"); r.code != exitOK || strings.Count(r.out, "\n") != 1 {
		t.Errorf("another size: %+v", r)
	}
	calls := b.Calls()
	if got := calls[len(calls)-1].Body.(control.ScaleRequest); got != (control.ScaleRequest{Workers: 5, For: 2 * time.Hour}) {
		t.Errorf("asked for %+v", got)
	}
	if r := run(t, nil, "scale", "5", "--wait", "--timeout", "50ms"); r.code != exitTimeout || !strings.Contains(r.errors, "goes on") {
		t.Errorf("a timeout: %+v", r)
	}
}

func TestScaleWaits(t *testing.T) {
	b, _ := serve(t)
	var out, errs buffer
	ended := make(chan result, 1)
	go func() { ended <- runWith(context.Background(), nil, &out, &errs, "scale", "--wait", "1") }()
	eventually(t, "progress", func() bool { return strings.Contains(errs.String(), "of 1 workers run") })
	b.Change(func(p *control.Pool) { p.Running, p.Workers = 1, p.Workers[:1] })
	if r := <-ended; r.code != exitOK {
		t.Errorf("%+v", r)
	}
	go func() { ended <- runWith(context.Background(), nil, &out, &errs, "scale", "--wait", "2") }()
	eventually(t, "the new size", func() bool { return strings.Contains(errs.String(), "of 2 workers run") })
	b.Change(func(p *control.Pool) { p.Desired = 9 })
	if r := <-ended; r.code != exitFailure || !strings.Contains(r.errors, "the size is 9") {
		t.Errorf("somebody else scaled: %+v", r)
	}
}

func TestRestartDrainUndrain(t *testing.T) {
	b, _ := serve(t)
	if r := run(t, nil, "restart", "web-0", "web-9", "web-1", "--force"); r.code != exitFailure || strings.Count(r.out, "begun") != 2 || !strings.Contains(r.errors, "web-9") {
		t.Errorf("%+v", r)
	}
	if r := run(t, nil, "drain", "web-2", "--now"); r.code != exitOK {
		t.Errorf("%+v", r)
	}
	if r := run(t, nil, "undrain", "web-2"); r.code != exitOK {
		t.Errorf("%+v", r)
	}
	want := []controltest.Call{
		{Verb: "restart", Worker: "web-0", Body: control.WorkerAction{Force: true}},
		{Verb: "restart", Worker: "web-1", Body: control.WorkerAction{Force: true}},
		{Verb: "drain", Worker: "web-2", Body: control.WorkerAction{Now: true}},
		{Verb: "undrain", Worker: "web-2"},
	}
	got := b.Calls()
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("calls %+v\nwant %+v", got, want)
		}
	}
}

func TestRestartWaitsForTheNewWorker(t *testing.T) {
	b, _ := serve(t)
	var out, errs buffer
	ended := make(chan result, 1)
	go func() { ended <- runWith(context.Background(), nil, &out, &errs, "restart", "--wait", "0") }()
	if r := <-ended; r.code != exitFailure {
		t.Errorf("the double knows full names only: %+v", r)
	}
	go func() { ended <- runWith(context.Background(), nil, &out, &errs, "restart", "--wait", "web-0") }()
	eventually(t, "progress", func() bool { return strings.Contains(errs.String(), "0 of 1 restarted") })
	b.Change(func(p *control.Pool) { p.Workers[0].Started = moment })
	if r := <-ended; r.code != exitOK || !strings.Contains(r.errors, "1 of 1 restarted") {
		t.Errorf("%+v", r)
	}
}

func TestExecCommand(t *testing.T) {
	b, folder := serve(t)
	b.OnExec = controltest.RunHere(folder)
	for _, c := range []struct {
		words []string
		in    string
		want  result
	}{
		{[]string{"exec", "web-0", "--", "sh", "-c", "exit 7"}, "", result{7, "", ""}},
		{[]string{"exec", "web-0", "sh", "-c", "echo a; echo b >&2; exit 2"}, "", result{2, "a\n", "b\n"}},
		{[]string{"exec", "-i", "web-0", "cat"}, "in\x00", result{0, "in\x00", ""}},
		{[]string{"exec", "web-0", "-i", "--", "cat"}, "in", result{0, "in", ""}},
		{[]string{"exec", "web-0", "cat"}, "unasked", result{0, "", ""}},
		{[]string{"exec", "-e", "A=b=c", "web-0", "printenv", "A"}, "", result{0, "b=c\n", ""}},
	} {
		if r := run(t, strings.NewReader(c.in), c.words...); r != c.want {
			t.Errorf("%v: %+v, want %+v", c.words, r, c.want)
		}
	}
	for says, words := range map[string][]string{
		"must be a terminal": {"exec", "-it", "web-0", "sh"},
		"no worker":          {"exec", "web-9", "sh"},
		"a command":          {"exec", "web-0"},
		"NAME=VALUE":         {"exec", "-e", "A", "web-0", "sh"},
		"not defined":        {"exec", "--bogus", "web-0", "sh"},
	} {
		if r := run(t, strings.NewReader(""), words...); r.code != exitExecFailed || !strings.Contains(r.errors, says) {
			t.Errorf("%v: %+v, want %q", words, r, says)
		}
	}
}

func TestExecCutIs125(t *testing.T) {
	folder := home(t)
	started := make(chan struct{})
	b := &controltest.Backend{OnExec: func(ctx context.Context, _ string, _ control.ExecRequest, _ control.ExecStreams) (int, error) {
		close(started)
		<-ctx.Done()
		return 0, errors.New("cut")
	}}
	b.SetPool(samplePool())
	_, stop := controltest.Serve(t, folder, b, control.Options{})
	go func() {
		<-started
		stop()
	}()
	if r := run(t, nil, "exec", "web-0", "sh"); r.code != exitExecFailed || !strings.Contains(r.errors, "the command's result is unknown") {
		t.Errorf("%+v", r)
	}
}
