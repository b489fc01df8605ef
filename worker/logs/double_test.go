package logs

import (
	"context"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/outpostpool/pool/providers"
)

// fakeProcess has an output that tests append to, end and look into.
type fakeProcess struct {
	launch string
	piece  int // most bytes per Read; 0: any

	mu        sync.Mutex
	changed   chan struct{}
	base      int64 // offset of data[0]; what is below was never kept
	data      []byte
	ended     bool
	discarded int64
	tooLow    bool // somebody read what was discarded
	step      func(string)
}

func newProcess(launch, output string, ended bool) *fakeProcess {
	return &fakeProcess{launch: launch, data: []byte(output), ended: ended, changed: make(chan struct{})}
}

func (p *fakeProcess) print(s string) { p.change(func() { p.data = append(p.data, s...) }) }
func (p *fakeProcess) end()           { p.change(func() { p.ended = true }) }

func (p *fakeProcess) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *fakeProcess) Info(context.Context) (providers.ProcInfo, error) {
	return providers.ProcInfo{LaunchID: p.launch}, nil
}
func (p *fakeProcess) Wait(context.Context) (providers.Exit, error)   { return providers.Exit{}, nil }
func (p *fakeProcess) Signal(context.Context, providers.Signal) error { return nil }
func (p *fakeProcess) OutputSize(context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.base + int64(len(p.data)), nil
}

func (p *fakeProcess) Discard(_ context.Context, offset int64) error {
	if p.step != nil {
		p.step("discard")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discarded = max(p.discarded, offset)
	return nil
}

func (p *fakeProcess) Output(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return &fakeOutput{p: p, ctx: ctx, at: offset}, nil
}

type fakeOutput struct {
	p   *fakeProcess
	ctx context.Context
	at  int64
}

func (o *fakeOutput) Close() error { return nil }
func (o *fakeOutput) Read(b []byte) (int, error) {
	for {
		o.p.mu.Lock()
		if o.at < o.p.discarded {
			o.p.tooLow = true
		}
		rest, ended, changed := o.p.data[o.at-o.p.base:], o.p.ended, o.p.changed
		if o.p.piece > 0 {
			b = b[:min(len(b), o.p.piece)]
		}
		n := copy(b, rest)
		o.p.mu.Unlock()
		if n > 0 {
			o.at += int64(n)
			return n, nil
		}
		if ended {
			return 0, io.EOF
		}
		select {
		case <-o.ctx.Done():
			return 0, o.ctx.Err()
		case <-changed:
		}
	}
}

// crashingDisk stops the world before or in the middle of a step.
type crashingDisk struct{ step func(string) bool }

type crash struct{ at string }

func (d crashingDisk) at(name string) {
	if d.step(name) {
		panic(crash{name})
	}
}

func (d crashingDisk) open(path string, flags int) (file, error) {
	d.at("open")
	f, err := realDisk{}.open(path, flags)
	if err != nil {
		return nil, err
	}
	if flags&os.O_TRUNC != 0 {
		defer func() {
			if recovered := recover(); recovered != nil {
				f.Close()
				panic(recovered)
			}
		}()
		d.at("begin")
	}
	return crashingFile{f, d}, nil
}
func (d crashingDisk) rename(from, to string) error {
	d.at("rename")
	return realDisk{}.rename(from, to)
}
func (d crashingDisk) remove(path string) error {
	d.at("remove")
	return realDisk{}.remove(path)
}

type crashingFile struct {
	file
	d crashingDisk
}

func (f crashingFile) WriteAt(b []byte, at int64) (int, error) {
	if f.d.step("write") {
		f.file.WriteAt(b[:len(b)/2], at)
		panic(crash{"write"})
	}
	return f.file.WriteAt(b, at)
}
func (f crashingFile) Truncate(n int64) error {
	f.d.at("truncate")
	return f.file.Truncate(n)
}
func (f crashingFile) Stat() (fs.FileInfo, error) { return f.file.Stat() }

func testSettings(dir string) Settings {
	return Settings{Dir: dir, Name: "web-0", MaxSize: 1 << 20, MaxFiles: 3, LineLimit: 64 << 10}
}

func testFollower(t testing.TB, o Options) *Follower {
	t.Helper()
	if o.Commit == nil {
		o.Commit = func(Position) error { return nil }
	}
	f, err := NewFollower(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func texts(t testing.TB, dir string) []string {
	t.Helper()
	lines, _, err := ReadTail(dir, "web-0", -1)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, l := range lines {
		if l.At.IsZero() {
			t.Errorf("line without a time: %q", l.Text)
		}
		all = append(all, l.Text)
	}
	return all
}
