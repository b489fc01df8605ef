package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/pool/state"
	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker/logs"
	"github.com/outpostpool/pool/worker/outpost"
	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

// world is what a supervisor lives in, on fake time: a provider whose
// sandboxes outlive it, an outpost, and a state folder.
type world struct {
	t        *testing.T
	dir      string
	double   *outposttest.Server
	http     *http.Client
	provider *fakeProvider
	outpost  outposttest.Outpost
	change   func(*Settings)

	super *Supervisor
	disk  *disk
	ended chan error
	leave context.CancelFunc
}

// inWorld runs a test in a bubble of its own.
func inWorld(t *testing.T, test func(*world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		double := outposttest.New(outposttest.Options{Outposts: []outposttest.Outpost{{Name: "web", Platform: "linux"}}})
		client, stop := outposttest.InMemory(double)
		w := &world{t: t, dir: dir, double: double, http: client, provider: newFakeProvider(), outpost: double.State().Outposts[0], change: func(*Settings) {}}
		defer func() {
			w.crash()
			double.Close()
			stop()
		}()
		if err := WriteUID(dir, "abcdefgh"); err != nil {
			t.Fatal(err)
		}
		test(w)
	})
}

func (w *world) settings() Settings {
	fleet := outpost.New(outpost.Options{
		APIURL: "http://outpost.test", HTTP: w.http,
		Token: func(context.Context) (string, error) { return "cog_secret_of_the_test", nil },
	})
	set := Settings{
		Name: "web", StateDir: w.dir, Version: "test", Provider: w.provider, ProviderKind: "fake", Workers: 2,
		Policy: plan.Policy{
			Initial: time.Second, Max: 5 * time.Minute, Jitter: 0.25, ResetAfter: 10 * time.Minute,
			CrashLoopAfter: 5, ReplaceAfter: 3, StartWindow: 5 * time.Second, StopGrace: 30 * time.Second,
			DrainLimit: 2 * time.Hour, ClaimLife: 5 * time.Minute, ParallelStarts: 8, MaxUnavailable: 1,
		},
		Worker:  WorkerSettings{Command: []string{"worker", "--outpost={outpost}"}, PrepareLimit: 15 * time.Minute, Path: "/bin"},
		Logs:    logs.Settings{MaxSize: 1 << 20, MaxFiles: 2, LineLimit: 1 << 16},
		Outpost: outpost.Outpost{ID: w.outpost.ID, Name: "web", Platform: "linux"},
		Token:   func(context.Context) (string, error) { return "cog_secret_of_the_test", nil },
		Fleet:   fleet, PollInterval: 5 * time.Second, DeafAfter: 2 * time.Minute,
		Rand: func() float64 { return 0.5 }, Logger: slog.New(slog.DiscardHandler),
	}
	w.change(&set)
	return set
}

// start runs a supervisor on what is on disk.
func (w *world) start() {
	w.t.Helper()
	super, err := Open(w.settings())
	if err != nil {
		w.t.Fatal(err)
	}
	w.disk = &disk{records: super.store}
	super.store = w.disk
	ctx, cancel := context.WithCancel(context.Background())
	w.super, w.leave, w.ended = super, cancel, make(chan error, 1)
	go func() { w.ended <- super.Run(ctx) }()
}

// crash ends the supervisor without a word to its workers.
func (w *world) crash() {
	if w.leave == nil {
		return
	}
	w.leave()
	if err := <-w.ended; err != nil {
		w.t.Error("run:", err)
	}
	w.leave = nil
}

// loseRecords removes the state file while no supervisor runs.
func (w *world) loseRecords() {
	w.t.Helper()
	for _, name := range []string{"pool.db", "pool.db-wal", "pool.db-shm"} {
		if err := os.Remove(filepath.Join(w.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
	}
}

func (w *world) pool() control.Pool {
	w.t.Helper()
	p, err := w.super.Pool(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) worker(n int) control.Worker {
	w.t.Helper()
	for _, each := range w.pool().Workers {
		if each.Slot == n {
			return each
		}
	}
	w.t.Fatalf("no worker %d in %+v", n, w.pool().Workers)
	return control.Worker{}
}

// within waits on fake time until the condition holds.
func (w *world) within(limit time.Duration, what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); ; {
		synctest.Wait()
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			var story strings.Builder
			_ = w.super.Events(context.Background(), control.EventQuery{}, func(e control.Event) error {
				fmt.Fprintf(&story, "\n  %s %s %s %s→%s: %s", e.At.Format(time.TimeOnly), e.Worker, e.Kind, e.From, e.To, e.Reason)
				return nil
			})
			w.t.Fatalf("not within %s: %s%s", limit, what, story.String())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *world) idle(n int) {
	w.t.Helper()
	w.within(time.Minute, fmt.Sprintf("%d workers idle", n), func() bool { p := w.pool(); return p.Idle == n && p.Running == n })
}

// claim has a worker claim a new session.
func (w *world) claim(slot int) (session string) {
	w.t.Helper()
	session, err := w.double.AddSession(outposttest.NewSession{})
	if err != nil {
		w.t.Fatal(err)
	}
	body, _ := json.Marshal(map[string]string{"acceptor_id": AcceptorID("web", "abcdefgh", slot)})
	request, _ := http.NewRequest(http.MethodPost, "http://outpost.test/opbeta/outposts/devins/"+session+"/claim", bytes.NewReader(body))
	request.Header.Set("Authorization", "Bearer cog_secret_of_the_test")
	request.Header.Set("Content-Type", "application/json")
	answer, err := w.http.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("claim: %s", answer.Status)
	}
	return session
}

// disk is the supervisor's records on a disk that can be full.
type disk struct {
	records
	full atomic.Bool
}

func (d *disk) Write(c state.Change) ([]state.Event, error) {
	if d.full.Load() {
		return nil, errors.New("the disk is full")
	}
	return d.records.Write(c)
}

func (d *disk) SetLogPositions(p map[int][]byte) error {
	if d.full.Load() {
		return errors.New("the disk is full")
	}
	return d.records.SetLogPositions(p)
}

// fakeProvider keeps sandboxes in memory. Its gate, when set, is passed by
// every call and can hang or refuse it.
type fakeProvider struct {
	mu        sync.Mutex
	sandboxes map[string]*fakeSandbox
	gate      func(ctx context.Context, op, name string) error
	launched  int
}

func newFakeProvider() *fakeProvider {
	return &fakeProvider{sandboxes: map[string]*fakeSandbox{}}
}

func (p *fakeProvider) pass(ctx context.Context, op, name string) error {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate == nil {
		return nil
	}
	return gate(ctx, op, name)
}

func (p *fakeProvider) setGate(gate func(ctx context.Context, op, name string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = gate
}

func (p *fakeProvider) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	if err := p.pass(ctx, "create", s.Name); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.sandboxes[s.Name]; have != nil {
		return have, nil
	}
	made := &fakeSandbox{p: p, spec: s}
	p.sandboxes[s.Name] = made
	return made, nil
}

func (p *fakeProvider) Open(ctx context.Context, id string) (providers.Sandbox, error) {
	if err := p.pass(ctx, "open", id); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.sandboxes[id]; have != nil {
		return have, nil
	}
	return nil, providers.Errorf(providers.NotFound, "open "+id, "it is gone")
}

func (p *fakeProvider) List(ctx context.Context, pool string) ([]providers.Info, error) {
	if err := p.pass(ctx, "list", pool); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []providers.Info
	for _, s := range p.sandboxes {
		all = append(all, s.info())
	}
	return all, nil
}

func (p *fakeProvider) Check(context.Context, bool) []providers.Finding { return nil }

// kill ends the living worker of a slot.
func (p *fakeProvider) kill(slot, code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sandboxes {
		if s.spec.Labels.Slot == slot && s.proc != nil {
			s.proc.end(providers.Exit{Code: code, Known: true, At: time.Now()})
		}
	}
}

// vanish loses a slot's sandbox with all that lives in it.
func (p *fakeProvider) vanish(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, s := range p.sandboxes {
		if s.spec.Labels.Slot == slot {
			delete(p.sandboxes, name)
		}
	}
}

// stopped reports whether a slot's worker stands still.
func (p *fakeProvider) stopped(slot int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sandboxes {
		if s.spec.Labels.Slot == slot && s.proc != nil && s.proc.stopped {
			return true
		}
	}
	return false
}

func (p *fakeProvider) launches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.launched
}

func (p *fakeProvider) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.sandboxes))
}

func (p *fakeProvider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sandboxes)
}

func (p *fakeProvider) alive() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, s := range p.sandboxes {
		if s.proc != nil && !s.proc.hasEnded() {
			names = append(names, name+" "+s.proc.id)
		}
	}
	return names
}

type fakeSandbox struct {
	p    *fakeProvider
	spec providers.Spec
	proc *fakeProcess
}

func (s *fakeSandbox) info() providers.Info {
	return providers.Info{ID: s.spec.Name, Name: s.spec.Name, Labels: s.spec.Labels, State: providers.Running, Incarnation: "1", Workspace: "/workspace", Home: "/workspace/.home"}
}

func (s *fakeSandbox) Info(ctx context.Context) (providers.Info, error) {
	if err := s.p.pass(ctx, "info", s.spec.Name); err != nil {
		return providers.Info{}, err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.sandboxes[s.spec.Name] != s {
		return providers.Info{}, providers.Errorf(providers.NotFound, "info", "it is gone")
	}
	return s.info(), nil
}

func (s *fakeSandbox) Exec(ctx context.Context, _ providers.Cmd) (providers.Exit, error) {
	return providers.Exit{Known: true}, s.p.pass(ctx, "exec", s.spec.Name)
}

func (s *fakeSandbox) Launch(ctx context.Context, launchID string, _ providers.Cmd) (providers.Process, error) {
	if err := s.p.pass(ctx, "launch", s.spec.Name); err != nil {
		return nil, err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	switch {
	case s.proc != nil && s.proc.id == launchID:
		return s.proc, nil
	case s.proc != nil && !s.proc.hasEnded():
		return nil, providers.Errorf(providers.Conflict, "launch", "%s is alive", s.proc.id)
	}
	s.p.launched++
	s.proc = &fakeProcess{s: s, id: launchID, pid: 1000 + s.p.launched, started: time.Now(), done: make(chan struct{})}
	return s.proc, nil
}

func (s *fakeSandbox) Process(ctx context.Context) (providers.Process, error) {
	if err := s.p.pass(ctx, "process", s.spec.Name); err != nil {
		return nil, err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.proc == nil {
		return nil, providers.Errorf(providers.NotFound, "process", "nothing was launched")
	}
	return s.proc, nil
}

func (s *fakeSandbox) Remove(ctx context.Context, _ bool) error {
	if err := s.p.pass(ctx, "remove", s.spec.Name); err != nil {
		return err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.proc != nil {
		s.proc.end(providers.Exit{Code: 137, Signal: 9, Known: true, At: time.Now()})
	}
	delete(s.p.sandboxes, s.spec.Name)
	return nil
}

type fakeProcess struct {
	s       *fakeSandbox
	id      string
	pid     int
	started time.Time
	stopped bool
	signals []providers.Signal
	exit    providers.Exit
	done    chan struct{}
}

func (f *fakeProcess) hasEnded() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func (f *fakeProcess) end(exit providers.Exit) {
	if !f.hasEnded() {
		f.exit = exit
		close(f.done)
	}
}

func (f *fakeProcess) Info(context.Context) (providers.ProcInfo, error) {
	return providers.ProcInfo{LaunchID: f.id, PID: f.pid, Started: f.started}, nil
}

func (f *fakeProcess) Wait(ctx context.Context) (providers.Exit, error) {
	if err := f.s.p.pass(ctx, "wait", f.s.spec.Name); err != nil {
		return providers.Exit{}, err
	}
	select {
	case <-f.done:
		return f.exit, nil
	case <-ctx.Done():
		return providers.Exit{}, ctx.Err()
	}
}

func (f *fakeProcess) Signal(ctx context.Context, sig providers.Signal) error {
	if err := f.s.p.pass(ctx, "signal "+string(sig), f.s.spec.Name); err != nil {
		return err
	}
	f.s.p.mu.Lock()
	defer f.s.p.mu.Unlock()
	f.signals = append(f.signals, sig)
	switch sig {
	case providers.STOP:
		f.stopped = true
	case providers.CONT:
		f.stopped = false
	case providers.TERM:
		f.end(providers.Exit{Code: 143, Signal: 15, Known: true, At: time.Now()})
	case providers.KILL:
		f.end(providers.Exit{Code: 137, Signal: 9, Known: true, At: time.Now()})
	}
	return nil
}

func (f *fakeProcess) Output(ctx context.Context, _ int64) (io.ReadCloser, error) {
	return &silence{ctx, f.done}, nil
}

// silence is the output of a worker that says nothing until it ends.
type silence struct {
	ctx  context.Context
	done chan struct{}
}

func (s *silence) Read([]byte) (int, error) {
	select {
	case <-s.done:
		return 0, io.EOF
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (s *silence) Close() error { return nil }

func sorted(names []string) []string {
	out := append([]string{}, names...)
	slices.Sort(out)
	return out
}
