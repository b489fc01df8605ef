package providers

import (
	"context"
	"io"
	"sync"
	"time"
)

// fake answers each call with the next of errs, then with none, and counts.
type fake struct {
	mu    sync.Mutex
	errs  []error
	calls int
	hold  chan struct{} // when set, each call waits for it
	now   int
	most  int // calls under way at once, at most
}

func (f *fake) next() error {
	f.mu.Lock()
	f.calls++
	f.now++
	f.most = max(f.most, f.now)
	var err error
	if len(f.errs) > 0 {
		err, f.errs = f.errs[0], f.errs[1:]
	}
	f.mu.Unlock()
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	f.now--
	f.mu.Unlock()
	return err
}

func (f *fake) Create(context.Context, Spec) (Sandbox, error) { return fakeSandbox{f}, f.next() }
func (f *fake) Open(context.Context, string) (Sandbox, error) { return fakeSandbox{f}, f.next() }
func (f *fake) List(context.Context, string) ([]Info, error)  { return []Info{{ID: "a"}}, f.next() }
func (f *fake) Check(context.Context, bool) []Finding         { return []Finding{{Name: "fake"}} }

type fakeSandbox struct{ *fake }

func (s fakeSandbox) Info(context.Context) (Info, error)      { return Info{ID: "a"}, s.next() }
func (s fakeSandbox) Exec(context.Context, Cmd) (Exit, error) { return Exit{Code: 7}, s.next() }
func (s fakeSandbox) Launch(context.Context, string, Cmd) (Process, error) {
	return fakeProcess(s), s.next()
}
func (s fakeSandbox) Process(context.Context) (Process, error) { return fakeProcess(s), s.next() }
func (s fakeSandbox) Remove(context.Context, bool) error       { return s.next() }

// Usage makes it a Sizer.
func (s fakeSandbox) Usage(context.Context) (Usage, error) { return Usage{CPU: time.Second}, nil }

type fakeProcess struct{ *fake }

func (p fakeProcess) Info(context.Context) (ProcInfo, error) { return ProcInfo{PID: 5}, p.next() }
func (p fakeProcess) Wait(context.Context) (Exit, error)     { return Exit{Code: 3}, p.next() }
func (p fakeProcess) Signal(context.Context, Signal) error   { return p.next() }
func (p fakeProcess) Output(context.Context, int64) (io.ReadCloser, error) {
	return io.NopCloser(nil), p.next()
}

// OutputSize makes it a Backlog.
func (p fakeProcess) OutputSize(context.Context) (int64, error) { return 9, nil }

// handles gives a wrapped provider's sandbox and process, made without error.
func handles(p Provider) (Sandbox, Process) {
	s, _ := p.Create(context.Background(), Spec{Name: "web-0"})
	q, _ := s.Launch(context.Background(), "L1", Cmd{})
	return s, q
}
