package providertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/outpostpool/pool/providers"
)

// bench is one sub-test's world with what the sub-tests share.
type bench struct {
	T
	f     Factory
	world World
	ctx   context.Context
	// run makes launch ids unique: whatever on this host bears the marker of a
	// launch id belongs to that launch.
	run string
}

func (b *bench) id(name string) string { return b.run + "." + name }

// must ends the sub-test on an error.
func (b *bench) must(err error, what string) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v (class %s)", what, err, providers.ClassOf(err))
	}
}

func (b *bench) wantClass(err error, want providers.Class, what string) {
	b.Helper()
	if err == nil {
		b.Fatalf("%s: no error, want class %s", what, want)
	}
	if got := providers.ClassOf(err); got != want {
		b.Fatalf("%s: class %s (%v), want %s", what, got, err, want)
	}
}

// until polls for a condition.
func (b *bench) until(what string, holds func() bool) {
	b.Helper()
	deadline := time.Now().Add(b.f.Patience)
	for !holds() {
		if time.Now().After(deadline) || b.ctx.Err() != nil {
			b.Fatalf("still not so after %v: %s", b.f.Patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// create makes a running sandbox that is removed with the sub-test.
func (b *bench) create(s providers.Spec) providers.Sandbox {
	b.Helper()
	sandbox, err := b.world.Provider.Create(b.ctx, s)
	b.must(err, "create "+s.Name)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), b.f.Patience)
		defer cancel()
		if err := sandbox.Remove(ctx, false); err != nil {
			b.Errorf("remove %s at the end: %v", s.Name, err)
		}
	})
	b.until(s.Name+" runs", func() bool { return b.info(sandbox).State == providers.Running })
	return sandbox
}

func (b *bench) sandbox() providers.Sandbox {
	b.Helper()
	return b.create(b.spec(0, 1))
}

func (b *bench) info(s providers.Sandbox) providers.Info {
	b.Helper()
	info, err := s.Info(b.ctx)
	b.must(err, "info")
	return info
}

// reopen finds a sandbox through a new instance of the provider.
func (b *bench) reopen(s providers.Sandbox) providers.Sandbox {
	b.Helper()
	again, err := b.world.Reopen().Open(b.ctx, b.info(s).ID)
	b.must(err, "open through a new instance")
	return again
}

// cmd is a shell command with the environment every command here gets.
func (b *bench) cmd(script string, args ...string) providers.Cmd {
	return providers.Cmd{
		Args: append([]string{"sh", "-c", script, "sh"}, args...),
		Env:  map[string]string{"PATH": b.f.Path},
	}
}

// sh runs a script to its end and returns what it printed. It must exit with 0.
func (b *bench) sh(s providers.Sandbox, script string, args ...string) string {
	b.Helper()
	var out, errs bytes.Buffer
	c := b.cmd(script, args...)
	c.Stdout, c.Stderr = &out, &errs
	exit, err := s.Exec(b.ctx, c)
	b.must(err, "exec")
	if exit.Code != 0 || !exit.Known {
		b.Fatalf("exec of %q: %+v, stderr %q", script, exit, errs.String())
	}
	return out.String()
}

func (b *bench) launch(s providers.Sandbox, id string, c providers.Cmd) providers.Process {
	b.Helper()
	p, err := s.Launch(b.ctx, b.id(id), c)
	b.must(err, "launch "+id)
	return p
}

func (b *bench) wait(p providers.Process) providers.Exit {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, b.f.Patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	b.must(err, "wait")
	return exit
}

func (b *bench) signal(p providers.Process, sig providers.Signal) {
	b.Helper()
	b.must(p.Signal(b.ctx, sig), "signal "+string(sig))
}

// alive tells whether a process has not ended.
func (b *bench) alive(p providers.Process) bool {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
	defer cancel()
	_, err := p.Wait(ctx)
	if err != nil && ctx.Err() == nil {
		b.Fatalf("wait: %v", err)
	}
	return err != nil
}

// output reads all there is from an offset on, to the end.
func (b *bench) output(p providers.Process, offset int64) []byte {
	b.Helper()
	r, err := p.Output(b.ctx, offset)
	b.must(err, "output")
	defer r.Close()
	all, err := io.ReadAll(r)
	b.must(err, "read the output")
	return all
}

// beat is shell text: a function that appends to a file again and again. A
// process is alive while its file grows; the suite can see that through any
// walls. One that a test left behind ends when its folder goes.
const beat = `beat() { while :; do echo x >>"$1.beat" || exit 98; sleep 0.05 || exit 99; done; }
`

func (b *bench) beats(s providers.Sandbox, name string) string {
	b.Helper()
	return strings.TrimSpace(b.sh(s, `if [ -e "$1" ]; then wc -c <"$1"; else echo 0; fi`, name+".beat"))
}

func (b *bench) grows(s providers.Sandbox, names ...string) {
	b.Helper()
	for _, name := range names {
		before := b.beats(s, name)
		b.until(name+" runs", func() bool { return b.beats(s, name) != before })
	}
}

// rests waits until a process beats no more: twenty missed beats in a row.
func (b *bench) rests(s providers.Sandbox, names ...string) {
	b.Helper()
	all := func() (seen string) {
		for _, name := range names {
			seen += b.beats(s, name) + " "
		}
		return seen
	}
	b.until(fmt.Sprintf("none of %q runs", names), func() bool {
		before := all()
		time.Sleep(time.Second)
		return all() == before
	})
}

// buffer is a writer that can be read while others write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *buffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *buffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}
