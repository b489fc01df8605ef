package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/outpostpool/pool/pool/control"
)

// TestExecGivesTheTerminalAndTakesItBack runs exec -it on a real terminal: its
// size goes along, a key that would be a signal is a byte, a resize arrives,
// and the terminal is as it was afterwards, also after a failure.
func TestExecGivesTheTerminalAndTakesItBack(t *testing.T) {
	b, _ := serve(t)
	b.OnExec = func(_ context.Context, _ string, r control.ExecRequest, s control.ExecStreams) (int, error) {
		if !r.TTY || !r.Stdin {
			return 0, control.Fail(control.CodeInvalid, "no terminal was asked for", "")
		}
		fmt.Fprintf(s.Stdout, "size %dx%d\r\n", r.Size.Rows, r.Size.Cols)
		key := make([]byte, 1)
		if _, err := io.ReadFull(s.Stdin, key); err != nil {
			return 0, err
		}
		fmt.Fprintf(s.Stdout, "key %d\r\n", key[0])
		size := <-s.Resize
		fmt.Fprintf(s.Stdout, "size %dx%d\r\n", size.Rows, size.Cols)
		return 33, nil
	}
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close() // ends the read of standard input that is left behind
	pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100})
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	screen := bufio.NewReader(master)
	expect := func(want string) {
		t.Helper()
		master.SetReadDeadline(time.Now().Add(20 * time.Second))
		for {
			line, err := screen.ReadString('\n')
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			if line == want+"\r\n" {
				return
			}
		}
	}
	exec := func(worker string) chan int {
		app := clientApp()
		app.Reader, app.Writer, app.ErrWriter = tty, tty, io.Discard
		code := make(chan int, 1)
		go func() {
			err := app.Run(reorder([]string{"pool", "--pool", "web", "exec", "-it", worker, "--", "sh"}, app))
			code <- finish(err, io.Discard)
		}()
		return code
	}

	code := exec("web-0")
	expect("size 30x100")
	master.Write([]byte{3}) // Ctrl-C
	expect("key 3")
	pty.Setsize(master, &pty.Winsize{Rows: 50, Cols: 132})
	syscall.Kill(os.Getpid(), syscall.SIGWINCH) // as the kernel would, were this terminal ours
	expect("size 50x132")
	if got := <-code; got != 33 {
		t.Errorf("exit code %d", got)
	}
	if got := <-exec("web-9"); got != exitExecFailed {
		t.Errorf("no such worker: exit code %d", got)
	}
	after, err := term.GetState(int(tty.Fd()))
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal was %+v and is %+v, %v", before, after, err)
	}
}
