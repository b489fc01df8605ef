package providertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/outpostpool/pool/providers"
)

var execCases = []testCase{
	{"exec passes exit codes exactly", func(b *bench) {
		s := b.sandbox()
		for _, code := range []int{0, 1, 2, 7, 126, 127, 137, 255} {
			exit, err := s.Exec(b.ctx, b.cmd(`exit "$1"`, fmt.Sprint(code)))
			b.must(err, "exec")
			if exit.Code != code || !exit.Known {
				b.Errorf("exit %d came as %+v", code, exit)
			}
		}
		exit, err := s.Exec(b.ctx, b.cmd(`kill -s KILL $$`))
		b.must(err, "exec")
		if exit.Code != 137 {
			b.Errorf("a killed command gave %+v, want code 137", exit)
		}
	}},
	{"exec of a missing program is 127, of one that cannot run 126", func(b *bench) {
		s := b.sandbox()
		b.sh(s, "echo text >plain; chmod 600 plain")
		dir := b.info(s).Workspace
		for program, code := range map[string]int{dir + "/missing": 127, "missing-from-path": 127, dir + "/plain": 126} {
			c := b.cmd("")
			c.Args = []string{program}
			exit, err := s.Exec(b.ctx, c)
			b.must(err, "exec "+program)
			if exit.Code != code {
				b.Errorf("%s gave %+v, want %d", program, exit, code)
			}
		}
	}},
	{"exec carries every byte both ways", func(b *bench) {
		s := b.sandbox()
		sent := everyByte(1 << 20)
		var out, errs bytes.Buffer
		c := b.cmd("tee copy; cat copy >&2")
		c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(sent), &out, &errs
		exit, err := s.Exec(b.ctx, c)
		b.must(err, "exec")
		if exit.Code != 0 || !bytes.Equal(out.Bytes(), sent) || !bytes.Equal(errs.Bytes(), sent) {
			b.Errorf("%+v: of %d bytes %d came on stdout (equal: %v), %d on stderr (equal: %v)", exit, len(sent),
				out.Len(), bytes.Equal(out.Bytes(), sent), errs.Len(), bytes.Equal(errs.Bytes(), sent))
		}
	}},
	{"exec keeps the two outputs apart", func(b *bench) {
		s := b.sandbox()
		var out, errs bytes.Buffer
		c := b.cmd("echo one; echo two >&2")
		c.Stdout, c.Stderr = &out, &errs
		_, err := s.Exec(b.ctx, c)
		b.must(err, "exec")
		if out.String() != "one\n" || errs.String() != "two\n" {
			b.Errorf("stdout %q, stderr %q", out.String(), errs.String())
		}
	}},
	{"exec without stdin reads nothing", func(b *bench) {
		if got := b.sh(b.sandbox(), "cat; echo end"); got != "end\n" {
			b.Errorf("got %q", got)
		}
	}},
	{"exec streams while the command runs", func(b *bench) {
		s := b.sandbox()
		in, feed := io.Pipe()
		var out buffer
		c := b.cmd(`while read -r line; do echo "got $line"; done; exit 3`)
		c.Stdin, c.Stdout = in, &out
		ended := make(chan providers.Exit, 1)
		go func() {
			exit, _ := s.Exec(b.ctx, c)
			ended <- exit
		}()
		defer feed.Close()
		for _, word := range []string{"one", "two"} {
			fmt.Fprintln(feed, word)
			b.until(word+" comes back", func() bool { return strings.Contains(out.String(), "got "+word+"\n") })
		}
		_ = feed.Close()
		if exit := <-ended; exit.Code != 3 {
			b.Errorf("after the end of stdin: %+v, want code 3", exit)
		}
	}},
	{"exec sets the environment and inherits nothing", func(b *bench) {
		s := b.sandbox()
		c := b.cmd("env")
		checkEnvironment(b, func(env map[string]string) string {
			var out bytes.Buffer
			c.Env, c.Stdout = env, &out
			_, err := s.Exec(b.ctx, c)
			b.must(err, "exec")
			return out.String()
		})
	}},
	{"a secret in an exec's environment is on no command line", func(b *bench) {
		s := b.sandbox()
		secret := rand.Text()
		c := b.cmd(beat+`echo "${#SECRET}" >size; beat on`).WithEnv("SECRET", secret)
		ctx, cancel := context.WithCancel(b.ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.Exec(ctx, c)
		}()
		b.grows(s, "on")
		noCommandLineHas(b, s, secret)
		if got := b.sh(s, "cat size"); got != fmt.Sprintln(len(secret)) {
			b.Errorf("the command saw a secret of length %q", got)
		}
		cancel()
		<-done
	}},
	{"exec starts in the workspace or below it", func(b *bench) {
		s := b.sandbox()
		workspace := b.info(s).Workspace
		b.sh(s, "mkdir -p in/ner")
		for dir, want := range map[string]string{"": workspace, "in/ner": workspace + "/in/ner", "/": "/", workspace + "/in": workspace + "/in"} {
			var out bytes.Buffer
			c := b.cmd("pwd -P")
			c.Dir, c.Stdout = dir, &out
			_, err := s.Exec(b.ctx, c)
			b.must(err, "exec")
			if out.String() != want+"\n" {
				b.Errorf("in %q: %q, want %q", dir, out.String(), want)
			}
		}
	}},
	{"a cancelled exec ends in the sandbox with its children", func(b *bench) {
		s := b.sandbox()
		ctx, cancel := context.WithCancel(b.ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := s.Exec(ctx, b.cmd(beat+`beat child & beat main`))
			ended <- err
		}()
		b.grows(s, "main", "child")
		cancel()
		select {
		case err := <-ended:
			b.wantClass(err, providers.Unknown, "a cancelled exec")
		case <-time.After(b.f.Patience):
			b.Fatalf("a cancelled exec does not return")
		}
		b.rests(s, "main", "child")
	}},
	{"exec works beside a worker and leaves it alone", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd(beat+"beat worker"))
		b.grows(s, "worker")
		if !b.alive(p) {
			b.Errorf("the worker has ended")
		}
	}},
}

// everyByte is n bytes in which every value follows every other often.
func everyByte(n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = byte(i ^ i>>8 ^ i>>13)
	}
	return all
}

// shellsOwn are variables that a shell on the way adds by itself.
var shellsOwn = map[string]bool{"PWD": true, "OLDPWD": true, "SHLVL": true, "_": true, "POOL_RUN": true}

// checkEnvironment runs "env" with several values and compares.
func checkEnvironment(b *bench, run func(env map[string]string) string) {
	b.Helper()
	want := map[string]string{
		"PATH": b.f.Path, "QUOTES": `it's "quoted" $HOME \ and` + "`back`", "EMPTY": "", "SPACES": "  two  ",
		"UNICODE": "grüße ☂", "EQUALS": "a=b=c", "HOME": "/somewhere",
	}
	b.T.Logf("the suite's own environment has %d variables", len(os.Environ()))
	got := map[string]string{}
	for line := range strings.Lines(run(want)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		got[name] = value
	}
	for name, value := range want {
		if seen, ok := got[name]; !ok || seen != value {
			b.Errorf("%s is %q (set: %v), want %q", name, seen, ok, value)
		}
	}
	for name, value := range got {
		if _, ours := want[name]; !ours && !shellsOwn[name] {
			b.Errorf("%s=%q was inherited", name, value)
		}
	}
}

// noCommandLineHas looks at all processes of this host, and at those that the
// sandbox sees.
func noCommandLineHas(b *bench, s providers.Sandbox, secret string) {
	b.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(secret)) {
			b.Errorf("%s has the secret: %.200q", file, bytes.ReplaceAll(text, []byte(secret), []byte("…")))
		}
	}
	inside := b.sh(s, `cat /proc/[0-9]*/cmdline 2>/dev/null || :`)
	if strings.Contains(inside, secret) {
		b.Errorf("a command line in the sandbox has the secret")
	}
}

var terminalCases = []testCase{
	{"a terminal has its size at the start and after a resize", func(b *bench) {
		s := b.sandbox()
		var out buffer
		resize := make(chan providers.Size, 1)
		c := b.cmd(`[ -t 0 ] && [ -t 1 ] || exit 9
echo "start $(stty size)"
until [ "$(stty size)" = "40 100" ]; do sleep 0.05; done
echo "then $(stty size)"
exit 3`).WithEnv("TERM", "xterm")
		c.TTY, c.Size, c.Resize, c.Stdout = true, providers.Size{Rows: 33, Cols: 77}, resize, &out
		ctx, cancel := context.WithTimeout(b.ctx, b.f.Patience)
		defer cancel()
		ended := make(chan error, 1)
		var exit providers.Exit
		go func() {
			var err error
			exit, err = s.Exec(ctx, c)
			ended <- err
		}()
		b.until("the terminal tells its size", func() bool { return strings.Contains(out.String(), "start 33 77") })
		resize <- providers.Size{Rows: 40, Cols: 100}
		b.must(<-ended, "exec with a terminal; it printed "+out.String())
		if exit.Code != 3 || !strings.Contains(out.String(), "then 40 100") {
			b.Errorf("%+v, printed %q", exit, out.String())
		}
	}},
	{"a terminal takes what is typed", func(b *bench) {
		s := b.sandbox()
		in, feed := io.Pipe()
		defer feed.Close()
		var out buffer
		c := b.cmd(`echo ready; read -r line; echo "got $line"; exit 4`).WithEnv("TERM", "xterm")
		c.TTY, c.Size, c.Stdin, c.Stdout = true, providers.Size{Rows: 24, Cols: 80}, in, &out
		ended := make(chan providers.Exit, 1)
		go func() {
			exit, _ := s.Exec(b.ctx, c)
			ended <- exit
		}()
		b.until("it is ready", func() bool { return strings.Contains(out.String(), "ready") })
		fmt.Fprint(feed, "hello\r")
		if exit := <-ended; exit.Code != 4 || !strings.Contains(out.String(), "got hello") {
			b.Errorf("%+v, printed %q", exit, out.String())
		}
	}},
}
