package controltest

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/outpostpool/pool/pool/control"
)

// Serve serves b on pool.sock in folder until stop is called or the test ends.
func Serve(t testing.TB, folder string, b control.Backend, o control.Options) (socket string, stop func()) {
	t.Helper()
	socket = filepath.Join(folder, control.SocketName)
	l, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- control.Serve(ctx, l, b, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return socket, stop
}

// RunHere is an OnExec that runs the command as a process of this machine, in
// folder, without a terminal.
func RunHere(folder string) func(context.Context, string, control.ExecRequest, control.ExecStreams) (int, error) {
	return func(ctx context.Context, _ string, r control.ExecRequest, s control.ExecStreams) (int, error) {
		cmd := exec.CommandContext(ctx, r.Args[0], r.Args[1:]...)
		cmd.Dir = filepath.Join(folder, r.Dir)
		cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
		cmd.Env = cmd.Environ()
		for name, value := range r.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		// Not cmd.Stdin: Wait would wait for input that nobody sends any more.
		if s.Stdin != nil {
			in, err := cmd.StdinPipe()
			if err != nil {
				return 0, err
			}
			go copyAndClose(in, s.Stdin)
		}
		if err := cmd.Start(); err != nil {
			return 0, control.Fail(control.CodeInvalid, err.Error(), "")
		}
		err := cmd.Wait()
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if cmd.ProcessState == nil {
			return 0, err
		}
		return cmd.ProcessState.ExitCode(), nil
	}
}

func copyAndClose(in io.WriteCloser, from io.Reader) {
	io.Copy(in, from)
	in.Close()
}
