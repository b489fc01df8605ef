package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/providers"
)

func TestExecCodes(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		run(t, s, "echo not a program > plain")
		for _, c := range []struct {
			args         []string
			code, signal int
		}{
			{[]string{"true"}, 0, 0},
			{[]string{"sh", "-c", "exit 7"}, 7, 0},
			{[]string{"sh", "-c", "exit 255"}, 255, 0},
			{[]string{"no-such-program"}, 127, 0},
			{[]string{"./plain"}, 126, 0},
			{[]string{"sh", "-c", "kill -9 $$"}, 137, 9},
			{[]string{"sh", "-c", "kill -TERM $$"}, 143, 15},
		} {
			exit, err := s.Exec(testContext(t), providers.Cmd{Args: c.args})
			if err != nil || exit.Code != c.code || exit.Signal != c.signal || !exit.Known {
				t.Errorf("%q: %+v %v", c.args, exit, err)
			}
		}
		if _, err := s.Exec(testContext(t), providers.Cmd{}); !providers.Is(err, providers.Invalid) {
			t.Errorf("no command: %v", err)
		}
	})
}

func TestExecStreams(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		data := make([]byte, 3<<20)
		rand.Read(data)
		var out, errs bytes.Buffer
		exit, err := s.Exec(testContext(t), providers.Cmd{
			Args: []string{"sh", "-c", "tee /dev/stderr"}, Stdin: bytes.NewReader(data), Stdout: &out, Stderr: &errs,
		})
		if err != nil || exit.Code != 0 || !bytes.Equal(out.Bytes(), data) || !bytes.Equal(errs.Bytes(), data) {
			t.Fatalf("%+v %v, %d and %d of %d bytes", exit, err, out.Len(), errs.Len(), len(data))
		}
	})
}

// slowWriter reads late, long after the command's end.
type slowWriter struct {
	bytes.Buffer
	first bool
}

func (w *slowWriter) Write(b []byte) (int, error) {
	if !w.first {
		w.first = true
		time.Sleep(300 * time.Millisecond)
	}
	return w.Buffer.Write(b)
}

func TestExecKeepsTheLastBytes(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		// A child holds the pipe for long; the output must come whole all the
		// same, and not wait for that child.
		out := &slowWriter{}
		c := script("sleep 1818 & head -c 60000 /dev/zero; echo end")
		c.Stdout = out
		began := time.Now()
		if exit, err := s.Exec(testContext(t), c); err != nil || exit.Code != 0 {
			t.Fatalf("%+v %v", exit, err)
		}
		if text := out.String(); len(text) != 60004 || !strings.HasSuffix(text, "end\n") {
			t.Fatalf("%d bytes", len(text))
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("it waited for the child")
		}
		killSleepers(t, "1818")
	})
}

func TestExecGivesNothingAway(t *testing.T) {
	t.Setenv("SUPERVISORS_SECRET", "hunter2")
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		var out bytes.Buffer
		c := script("env; ls /proc/self/fd | wc -l; pwd")
		c.Env = map[string]string{"GIVEN": "it's\n\"$HOME\"", "TERM": "x"}
		c.Stdout = &out
		if _, err := s.Exec(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		info, _ := s.Info(testContext(t))
		text := out.String()
		for _, want := range []string{"GIVEN=it's\n\"$HOME\"\n", "HOME=" + info.Home + "\n", "\n4\n" + info.Workspace + "\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in %q", want, text)
			}
		}
		if strings.Contains(text, "hunter2") {
			t.Error("the supervisor's environment reached a command")
		}
	})
}

func TestExecFolders(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		info, _ := s.Info(testContext(t))
		for dir, want := range map[string]string{"": info.Workspace, "repos": info.Workspace + "/repos", "/usr": "/usr"} {
			var out bytes.Buffer
			exit, err := s.Exec(testContext(t), providers.Cmd{Args: []string{"pwd"}, Dir: dir, Stdout: &out})
			if err != nil || exit.Code != 0 || strings.TrimSpace(out.String()) != want {
				t.Errorf("%q: %q %+v %v", dir, out.String(), exit, err)
			}
		}
		if exit, err := s.Exec(testContext(t), providers.Cmd{Args: []string{"pwd"}, Dir: "nowhere"}); err != nil || exit.Code != 126 {
			t.Errorf("a folder that is not there: %+v %v", exit, err)
		}
	})
}

func TestExecCancelEndsTheTree(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := s.Exec(ctx, script(`trap "" TERM HUP; setsid sleep 1919 & (sleep 1919 & sleep 1919 &) ; echo up > up; sleep 1919`))
			ended <- err
		}()
		eventually(t, "the tree is up", func() bool { return sleepers(t, "1919") == 4 })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		eventually(t, "the tree is gone", func() bool { return sleepers(t, "1919") == 0 })
	})
}

func TestExecOnATerminal(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		in, type_ := io.Pipe()
		seen, out := io.Pipe()
		resize := make(chan providers.Size, 1)
		c := script(`test -t 0 && test -t 1 && test -t 2 && stty size; while read -r x && [ -z "$x" ]; do stty size; echo; done; echo "got $x" >&2; exit 5`)
		c.TTY, c.Size, c.Resize, c.Stdin, c.Stdout = true, providers.Size{Rows: 31, Cols: 97}, resize, in, out
		type result struct {
			exit providers.Exit
			err  error
		}
		done := make(chan result, 1)
		go func() {
			exit, err := s.Exec(testContext(t), c)
			out.Close()
			done <- result{exit, err}
		}()
		var text strings.Builder
		until := func(want string) {
			t.Helper()
			buffer := make([]byte, 1024)
			for !strings.Contains(text.String(), want) {
				n, err := seen.Read(buffer)
				text.Write(buffer[:n])
				if err != nil {
					t.Fatalf("%q never came in %q: %v", want, text.String(), err)
				}
			}
		}
		until("31 97")
		resize <- providers.Size{Rows: 12, Cols: 40}
		// The size is set some time after it is taken: ask until it is there.
		eventually(t, "the new size", func() bool {
			text.Reset()
			io.WriteString(type_, "\n")
			until("\r\n\r\n")
			return strings.Contains(text.String(), "12 40")
		})
		io.WriteString(type_, "word\n")
		until("got word")
		go io.Copy(io.Discard, seen)
		r := <-done
		type_.Close()
		if r.err != nil || r.exit.Code != 5 {
			t.Fatalf("%+v %v", r.exit, r.err)
		}
	})
}

func TestExecTerminalInputEnds(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		var out bytes.Buffer
		exit, err := s.Exec(testContext(t), providers.Cmd{Args: []string{"cat"}, TTY: true, Stdin: strings.NewReader("hello\n"), Stdout: &out})
		if err != nil || exit.Code != 0 || !strings.Contains(out.String(), "hello") {
			t.Fatalf("%+v %v %q", exit, err, out.String())
		}
	})
}

func TestExecTellsAWriterThatFails(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		closed, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		c := script("echo text")
		c.Stdout = closed
		if _, err := s.Exec(testContext(t), c); err == nil || providers.ClassOf(err) != providers.Unknown {
			t.Fatalf("a lost output is no success: %v", err)
		}
	})
}

func killSleepers(t *testing.T, seconds string) {
	t.Helper()
	all, _ := readTable()
	for pid, p := range all {
		line, _ := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
		if string(line) == "sleep\x00"+seconds+"\x00" {
			signalProcess(p.id(), 9)
		}
	}
	eventually(t, "sleepers are gone", func() bool { return sleepers(t, seconds) == 0 })
}
