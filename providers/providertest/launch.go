package providertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/providers"
)

var launchCases = []testCase{
	{"a sandbox in which nothing was launched has no process", func(b *bench) {
		_, err := b.sandbox().Process(b.ctx)
		b.wantClass(err, providers.NotFound, "process")
	}},
	{"launch by the same id gives the same process, living or ended", func(b *bench) {
		s := b.sandbox()
		c := b.cmd(beat + "echo started >>starts; beat worker")
		first := b.launch(s, "L1", c)
		b.grows(s, "worker")
		for range 2 {
			b.sameProcess(first, b.launch(s, "L1", c))
			b.sameProcess(first, b.launch(b.reopen(s), "L1", c))
			b.signal(first, providers.KILL)
			b.wait(first)
		}
		if got := b.sh(s, "cat starts"); got != "started\n" {
			b.Errorf("it started more than once: %q", got)
		}
	}},
	{"two launches of one id at once start one process", func(b *bench) {
		s := b.sandbox()
		var all sync.WaitGroup
		for range 4 {
			again := b.reopen(s)
			all.Go(func() {
				// Under contention one may be refused, never started twice.
				_, _ = again.Launch(b.ctx, b.id("L1"), b.cmd(beat+"echo started >>starts; beat worker"))
			})
		}
		all.Wait()
		b.grows(s, "worker")
		if got := b.sh(s, "cat starts"); got != "started\n" {
			b.Errorf("starts: %q, want one", got)
		}
	}},
	{"launch by another id is a conflict while one lives, and fine after", func(b *bench) {
		s := b.sandbox()
		first := b.launch(s, "L1", b.cmd(beat+"beat one"))
		b.grows(s, "one")
		for _, sandbox := range []providers.Sandbox{s, b.reopen(s)} {
			_, err := sandbox.Launch(b.ctx, b.id("L2"), b.cmd("echo no >second"))
			b.wantClass(err, providers.Conflict, "a second launch")
		}
		b.sh(s, "[ ! -e second ]")
		b.signal(first, providers.KILL)
		b.wait(first)
		second := b.launch(s, "L2", b.cmd("exit 5"))
		if exit := b.wait(second); exit.Code != 5 {
			b.Errorf("the second ended with %+v, want code 5", exit)
		}
		b.wantLaunchID(s, "L2")
	}},
	{"a launched process lives on and is found by a new instance", func(b *bench) {
		s := b.sandbox()
		first := b.launch(s, "L1", b.cmd(beat+"beat worker"))
		b.grows(s, "worker")
		again := b.reopen(s)
		found, err := again.Process(b.ctx)
		b.must(err, "process through a new instance")
		b.sameProcess(first, found)
		b.grows(again, "worker")
		if !b.alive(found) {
			b.Errorf("it is taken for ended")
		}
		b.signal(found, providers.TERM)
		if exit := b.wait(found); exit.Signal != 15 || !exit.Known {
			b.Errorf("it ended with %+v, want signal 15", exit)
		}
		found, err = b.reopen(s).Process(b.ctx)
		b.must(err, "process after the end")
		b.sameProcess(first, found)
		if exit := b.wait(found); exit.Signal != 15 || !exit.Known {
			b.Errorf("a new instance tells %+v, want signal 15", exit)
		}
	}},
	{"launch does not end with its caller's context", func(b *bench) {
		s := b.sandbox()
		ctx, cancel := context.WithCancel(b.ctx)
		_, err := s.Launch(ctx, b.id("L1"), b.cmd(beat+"beat worker"))
		b.must(err, "launch")
		cancel()
		b.grows(s, "worker")
		b.grows(s, "worker")
	}},
	{"launch sets the environment and inherits nothing", func(b *bench) {
		s := b.sandbox()
		round := 0
		checkEnvironment(b, func(env map[string]string) string {
			round++
			c := b.cmd("env")
			c.Env = env
			p := b.launch(s, fmt.Sprintf("L%d", round), c)
			b.wait(p)
			return string(b.output(p, 0))
		})
	}},
	{"a launched process bears the launch id as its marker", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "marked-1", b.cmd(`echo "$POOL_RUN"`))
		b.wait(p)
		if got := string(b.output(p, 0)); got != b.id("marked-1")+"\n" {
			b.Errorf("POOL_RUN is %q", got)
		}
	}},
	{"a secret in a launch's environment is on no command line", func(b *bench) {
		s := b.sandbox()
		secret := rand.Text()
		b.launch(s, "L1", b.cmd(beat+`echo "${#SECRET}" >size; beat on`).WithEnv("SECRET", secret))
		b.grows(s, "on")
		noCommandLineHas(b, s, secret)
		if got := b.sh(s, "cat size"); got != fmt.Sprintln(len(secret)) {
			b.Errorf("the worker saw a secret of length %q", got)
		}
		if inside := b.sh(s, `cat /proc/self/environ`); len(inside) == 0 || strings.Contains(inside, secret) {
			b.Errorf("an exec beside the worker has its secret")
		}
	}},
	{"launch starts in the workspace or below it", func(b *bench) {
		s := b.sandbox()
		workspace := b.info(s).Workspace
		b.sh(s, "mkdir -p in/ner")
		for i, dir := range []string{"", "in/ner"} {
			c := b.cmd("pwd -P")
			c.Dir = dir
			p := b.launch(s, fmt.Sprintf("L%d", i), c)
			b.wait(p)
			want := workspace + "\n"
			if dir != "" {
				want = workspace + "/" + dir + "\n"
			}
			if got := string(b.output(p, 0)); got != want {
				b.Errorf("in %q: %q, want %q", dir, got, want)
			}
		}
	}},
	{"a launched process reads an empty stdin and ignores no signal", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd("cat; echo end"))
		b.wait(p)
		if got := string(b.output(p, 0)); got != "end\n" {
			b.Errorf("from stdin and after it came %q", got)
		}
		// No shell in between: BusyBox's lets its children ignore QUIT.
		c := b.cmd("")
		c.Args = []string{"grep", "SigIgn", "/proc/self/status"}
		p = b.launch(s, "L2", c)
		if exit := b.wait(p); exit.Code != 0 {
			b.Skip("this system does not tell which signals are ignored")
		}
		got := strings.Fields(string(b.output(p, 0)))
		if len(got) != 2 {
			b.Fatalf("the line of ignored signals is %q", got)
		}
		// Only 1 to 31 count: glibc's posix_spawn, which make uses, has its
		// children ignore the C library's own 32 and 33.
		if mask, err := strconv.ParseUint(got[1], 16, 64); err != nil || mask&(1<<31-1) != 0 {
			b.Errorf("the mask of ignored signals is %q, want none", got[1])
		}
	}},
}

func (b *bench) sameProcess(want, got providers.Process) {
	b.Helper()
	one, err := want.Info(b.ctx)
	b.must(err, "process info")
	two, err := got.Info(b.ctx)
	b.must(err, "process info")
	if diff := cmp.Diff(one, two); diff != "" {
		b.Errorf("another process (-want +got):\n%s", diff)
	}
}

func (b *bench) wantLaunchID(s providers.Sandbox, id string) {
	b.Helper()
	p, err := s.Process(b.ctx)
	b.must(err, "process")
	info, err := p.Info(b.ctx)
	b.must(err, "process info")
	if info.LaunchID != b.id(id) {
		b.Errorf("the last launched is %q, want %q", info.LaunchID, b.id(id))
	}
}

var exitCases = []testCase{
	{"wait tells exit codes exactly", func(b *bench) {
		s := b.sandbox()
		for _, code := range []int{0, 1, 7, 126, 127, 128} {
			p := b.launch(s, fmt.Sprintf("L%d", code), b.cmd(`exit "$1"`, fmt.Sprint(code)))
			if exit := b.wait(p); exit.Code != code || exit.Signal != 0 || !exit.Known || exit.At.IsZero() {
				b.Errorf("exit %d came as %+v", code, exit)
			}
		}
	}},
	{"wait tells the signal that ended a process", func(b *bench) {
		s := b.sandbox()
		for name, number := range map[string]int{"TERM": 15, "KILL": 9, "INT": 2, "HUP": 1} {
			p := b.launch(s, "L-"+name, b.cmd(`kill -s "$1" $$; sleep 60`, name))
			if exit := b.wait(p); exit.Signal != number || exit.Code != 128+number || !exit.Known {
				b.Errorf("%s came as %+v", name, exit)
			}
		}
	}},
	{"a worker that cannot start ends with 127", func(b *bench) {
		s := b.sandbox()
		c := b.cmd("")
		c.Args = []string{"/missing/program"}
		if exit := b.wait(b.launch(s, "L1", c)); exit.Code != 127 {
			b.Errorf("got %+v, want code 127", exit)
		}
	}},
	{"two wait at once, and one after the end", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd("until [ -e go ]; do sleep 0.05; done; exit 6"))
		exits := make(chan providers.Exit, 2)
		for range 2 {
			go func() {
				exit, err := p.Wait(b.ctx)
				if err != nil {
					exit.Code = -1
				}
				exits <- exit
			}()
		}
		select {
		case exit := <-exits:
			b.Errorf("a wait returned %+v before the end", exit)
		case <-time.After(200 * time.Millisecond):
		}
		b.sh(s, "touch go")
		for range 2 {
			if exit := <-exits; exit.Code != 6 || !exit.Known {
				b.Errorf("a wait returned %+v, want code 6", exit)
			}
		}
		if exit := b.wait(p); exit.Code != 6 {
			b.Errorf("a wait after the end returned %+v", exit)
		}
	}},
	{"a cancelled wait knows nothing and ends nothing", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd(beat+"beat worker"))
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		_, err := p.Wait(ctx)
		b.wantClass(err, providers.Unknown, "a cancelled wait")
		b.grows(s, "worker")
	}},
	{"the end of a worker does not end its sandbox", func(b *bench) {
		s := b.sandbox()
		b.wait(b.launch(s, "L1", b.cmd("exit 1")))
		if got := b.sh(s, "echo here"); got != "here\n" || b.info(s).State != providers.Running {
			b.Errorf("exec gives %q, state %s", got, b.info(s).State)
		}
	}},
}

var epochCases = []testCase{
	{"a launch with a lower epoch is refused", func(b *bench) {
		spec := b.spec(0, 1)
		spec.Epoch = 3
		old := b.create(spec)
		b.wait(b.launch(old, "L1", b.cmd("exit 0")))
		again := b.reopen(old)
		newer := b.epocher(again)
		if epoch, err := newer.Epoch(b.ctx); err != nil || epoch != 3 {
			b.Fatalf("epoch %d, %v; want 3", epoch, err)
		}
		b.must(newer.RaiseEpoch(b.ctx, 5), "raise to 5")
		b.wantClass(newer.RaiseEpoch(b.ctx, 4), providers.Conflict, "raise to 4 after 5")
		if epoch, err := b.epocher(old).Epoch(b.ctx); err != nil || epoch != 5 {
			b.Errorf("the old supervisor sees epoch %d, %v; want 5", epoch, err)
		}
		_, err := old.Launch(b.ctx, b.id("L2"), b.cmd("echo no >second"))
		b.wantClass(err, providers.Conflict, "launch with epoch 3 after 5")
		b.sh(old, "[ ! -e second ]")
		b.wait(b.launch(again, "L3", b.cmd("exit 0")))
	}},
}

func (b *bench) epocher(s providers.Sandbox) providers.Epocher {
	b.Helper()
	e, ok := providers.As[providers.Epocher](s)
	if !ok {
		b.Skip("this provider has no epochs")
	}
	return e
}
