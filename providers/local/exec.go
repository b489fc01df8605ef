package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// Exec runs a command to its end. When it has ended, output that it or its
// children wrote so far is delivered to the last byte; children that live on
// keep the pipes and are no longer listened to.
func (s *Sandbox) Exec(ctx context.Context, c providers.Cmd) (providers.Exit, error) {
	op := "run a command in " + s.meta.Name
	if err := s.check(ctx, "run a command in"); err != nil {
		return providers.Exit{}, err
	}
	if err := checkCmd(op, c); err != nil {
		return providers.Exit{}, err
	}
	mark := s.p.execMark(s.meta.Name) // never a worker's
	argv, env := s.argv(c), s.environment(c.Env)
	env[launch.Marker] = mark
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = flatten(env), "/"
	start := startPiped
	if c.TTY {
		start = func(cmd *exec.Cmd, c providers.Cmd) (*streams, error) {
			return startOnTerminal(cmd, c, s.p.ctty != nil)
		}
	}
	streams, err := start(cmd, c)
	if err != nil {
		return providers.Exit{}, providers.Errorf(providers.Transient, op, "%w", err)
	}
	exit, err := s.finish(ctx, op, cmd, streams, execTree(cmd.Process.Pid, mark))
	return exit, err
}

// finish waits for the command, or ends it with its tree when ctx does. A
// reader of the output that has failed is an error; the exit is told anyway.
func (s *Sandbox) finish(ctx context.Context, op string, cmd *exec.Cmd, io *streams, find func(table) []proc) (providers.Exit, error) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		io.end(ctx)
		if err := ctx.Err(); err != nil && io.cut() {
			return providers.Exit{}, err
		}
		exit, err := exitOf(cmd, err)
		if err != nil {
			return providers.Exit{}, providers.Errorf(providers.Unknown, op, "%w", err)
		}
		if err := io.failure(); err != nil {
			return exit, providers.Errorf(providers.Unknown, op, "its output could not be passed on: %w", err)
		}
		if s.p.walls != nil {
			exit = fromShell(exit)
		}
		return exit, nil
	case <-ctx.Done():
		// The command is still a child of ours, at worst a zombie, so its
		// number is its own; ctx is over, so the kill has a time of its own.
		kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeperTime)
		hunt{find: find, uid: s.p.uid, sig: unix.SIGKILL}.run(kill)
		cancel()
		<-ended
		io.abandon()
		return providers.Exit{}, ctx.Err()
	}
}

// execTree finds what an exec started: its session, descendants, carriers of
// its mark, and with walls its whole pid namespace.
func execTree(pid int, mark string) func(table) []proc {
	return func(t table) []proc {
		r := roots{worker: id{pid, t[pid].start}}
		for each, p := range t {
			if !p.zombie && environHas(each, launch.Marker+"="+mark) {
				r.also = append(r.also, each)
			}
		}
		r.also = append(r.also, sameNamespace(t, r)...)
		return members(t, r)
	}
}

// exitOf translates what the system says.
func exitOf(cmd *exec.Cmd, err error) (providers.Exit, error) {
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return providers.Exit{}, err
	}
	exit := providers.Exit{Code: cmd.ProcessState.ExitCode(), Known: true, At: time.Now().UTC()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = int(status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit, nil
}

// fromShell reads a signal out of the code: bubblewrap reports a signal n as
// 128+n, like a shell, and like launch.Exit.Result we take it for that.
func fromShell(e providers.Exit) providers.Exit {
	if e.Signal == 0 && e.Code > 128 && e.Code <= 192 {
		e.Signal = e.Code - 128
	}
	return e
}

// startPiped starts a command on pipes, in a session of its own.
func startPiped(cmd *exec.Cmd, c providers.Cmd) (*streams, error) {
	s := newStreams()
	var theirs []*os.File
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
	}()
	if c.Stdin != nil {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, read)
		cmd.Stdin = read
		s.give(write, c.Stdin, nil)
	}
	for _, out := range []struct {
		to  *writerTarget
		set func(*os.File)
	}{
		{target(c.Stdout), func(f *os.File) { cmd.Stdout = f }},
		{target(c.Stderr), func(f *os.File) { cmd.Stderr = f }},
	} {
		if out.to == nil {
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		theirs = append(theirs, write)
		out.set(write)
		s.take(read, out.to)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		s.close()
		return nil, err
	}
	s.run()
	return s, nil
}
