package providertest

import (
	"strings"

	"github.com/outpostpool/pool/providers"
)

// family is a worker with a child, a grandchild in a session of its own, and
// one that nobody is the parent of any more.
const family = `
beat child &
export BEAT='while :; do echo x >>"$1.beat" || exit 98; sleep 0.05 || exit 99; done'
setsid sh -c "$BEAT" sh own-session &
( (exec sh -c "$BEAT" sh orphan) & )
( (exec setsid sh -c "$BEAT" sh both) & )
beat worker
`

var familyNames = []string{"worker", "child", "own-session", "orphan", "both"}

func (b *bench) family() (providers.Sandbox, providers.Process) {
	b.Helper()
	s := b.sandbox()
	p := b.launch(s, "L1", b.cmd(beat+family))
	b.grows(s, familyNames...)
	return s, p
}

var signalCases = []testCase{
	{"TERM reaches the whole tree", func(b *bench) {
		s, p := b.family()
		b.signal(p, providers.TERM)
		if exit := b.wait(p); exit.Signal != 15 || !exit.Known {
			b.Errorf("it ended with %+v, want signal 15", exit)
		}
		b.rests(s, familyNames...)
	}},
	{"KILL reaches the whole tree, and its exit is known", func(b *bench) {
		s, p := b.family()
		b.signal(p, providers.KILL)
		exit := b.wait(p)
		if exit.Signal != 9 || !exit.Known || exit.Leftovers != "" {
			b.Errorf("it ended with %+v, want signal 9 and nothing left", exit)
		}
		b.rests(s, familyNames...)
	}},
	{"STOP stops the whole tree and CONT lets it go on", func(b *bench) {
		s, p := b.family()
		b.signal(p, providers.STOP)
		b.rests(s, familyNames...)
		if !b.alive(p) {
			b.Fatalf("a stopped process is taken for ended")
		}
		b.signal(p, providers.CONT)
		b.grows(s, familyNames...)
		b.signal(p, providers.STOP)
		b.signal(p, providers.TERM)
		b.signal(p, providers.CONT)
		if exit := b.wait(p); exit.Signal != 15 {
			b.Errorf("after STOP, TERM, CONT it ended with %+v, want signal 15", exit)
		}
		b.rests(s, familyNames...)
	}},
	{"KILL ends a stopped tree", func(b *bench) {
		s, p := b.family()
		b.signal(p, providers.STOP)
		b.signal(p, providers.KILL)
		if exit := b.wait(p); exit.Signal != 9 {
			b.Errorf("it ended with %+v, want signal 9", exit)
		}
		b.rests(s, familyNames...)
	}},
	{"a worker may answer TERM in its own way", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd(`trap 'echo bye; exit 42' TERM; echo ready; while :; do sleep 0.05; done`))
		b.readThrough(p, len("ready\n"))
		b.signal(p, providers.TERM)
		if exit := b.wait(p); exit.Code != 42 || exit.Signal != 0 {
			b.Errorf("it ended with %+v, want code 42", exit)
		}
		if got := string(b.output(p, 0)); !strings.HasSuffix(got, "bye\n") {
			b.Errorf("its output ends with %q", got)
		}
	}},
	{"signals of a new instance reach the tree too", func(b *bench) {
		s, _ := b.family()
		p, err := b.reopen(s).Process(b.ctx)
		b.must(err, "process")
		b.signal(p, providers.KILL)
		if exit := b.wait(p); exit.Signal != 9 || !exit.Known {
			b.Errorf("it ended with %+v, want signal 9", exit)
		}
		b.rests(s, familyNames...)
	}},
	{"a signal to an ended process is fine", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd("exit 0"))
		b.wait(p)
		for _, sig := range []providers.Signal{providers.STOP, providers.CONT, providers.TERM, providers.KILL} {
			b.signal(p, sig)
		}
	}},
	{"an exec is not part of the worker's tree", func(b *bench) {
		s, p := b.family()
		done := make(chan error, 1)
		var exit providers.Exit
		go func() {
			var err error
			exit, err = s.Exec(b.ctx, b.cmd(beat+`beat beside & until [ -e go ]; do sleep 0.05; done; kill $!; exit 8`))
			done <- err
		}()
		b.grows(s, "beside")
		b.signal(p, providers.KILL)
		b.wait(p)
		b.grows(s, "beside")
		b.sh(s, "touch go")
		b.must(<-done, "exec")
		if exit.Code != 8 {
			b.Errorf("the exec ended with %+v, want code 8", exit)
		}
	}},
}
