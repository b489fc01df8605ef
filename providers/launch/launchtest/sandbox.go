package launchtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// Sandbox is one folder. Its Launch and Process are the driver's.
type Sandbox struct {
	*launch.Driver
	p    *Provider
	meta meta
}

var (
	_ providers.Sandbox = (*Sandbox)(nil)
	_ launch.Host       = (*Sandbox)(nil)
)

// Info is NotFound once the folder is gone.
func (s *Sandbox) Info(context.Context) (providers.Info, error) {
	m, err := s.p.read(s.meta.Name)
	if err != nil {
		return providers.Info{}, err
	}
	return s.p.info(m), nil
}

// RunDir and Workspace are for the driver.
func (s *Sandbox) RunDir() string    { return s.p.sandboxDir(s.meta.Name) + "/run" }
func (s *Sandbox) Workspace() string { return s.p.workspace(s.meta.Labels) }

// Exec runs a command in a session of its own.
func (s *Sandbox) Exec(ctx context.Context, c providers.Cmd) (providers.Exit, error) {
	op := "exec in " + s.meta.Name
	if len(c.Args) == 0 || c.Args[0] == "" {
		return providers.Exit{}, providers.Errorf(providers.Invalid, op, "no command given")
	}
	if _, err := s.p.read(s.meta.Name); err != nil {
		return providers.Exit{}, err
	}
	cmd := s.command(c)
	if c.TTY {
		return terminal(ctx, op, cmd, c)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	// A background child may hold the streams open after the command's end.
	cmd.WaitDelay = 2 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return providers.Exit{}, providers.Errorf(providers.Transient, op, "%w", err)
	}
	return finish(ctx, op, cmd)
}

// command lets the sandbox's own shell find the program, as a vendor's does.
func (s *Sandbox) command(c providers.Cmd) *exec.Cmd {
	dir := c.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.Workspace(), dir)
	}
	argv := append([]string{"sh", "-c", `exec "$@"`, "sh"}, c.Args...)
	cmd := &exec.Cmd{Path: findIn(s.p.Path, "sh"), Args: argv, Dir: dir, Env: []string{}}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		cmd.Env = append(cmd.Env, name+"="+c.Env[name])
	}
	return cmd
}

// finish waits for a started command; when ctx ends first, its tree is killed.
func finish(ctx context.Context, op string, cmd *exec.Cmd) (providers.Exit, error) {
	stop := context.AfterFunc(ctx, func() { killTree(cmd.Process.Pid) })
	err := cmd.Wait()
	if !stop() && ctx.Err() != nil {
		return providers.Exit{}, providers.Errorf(providers.Unknown, op, "%w", context.Cause(ctx))
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) && !errors.Is(err, exec.ErrWaitDelay) {
		return providers.Exit{}, providers.Errorf(providers.Unknown, op, "%w", err)
	}
	exit := providers.Exit{Code: cmd.ProcessState.ExitCode(), Known: true, At: time.Now()}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		exit.Signal = int(status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit, nil
}

func terminal(ctx context.Context, op string, cmd *exec.Cmd, c providers.Cmd) (providers.Exit, error) {
	// With no pipes of its own, Wait returns at the command's end.
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: c.Size.Rows, Cols: c.Size.Cols})
	if err != nil {
		return providers.Exit{}, providers.Errorf(providers.Transient, op, "%w", err)
	}
	done, resized := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(resized)
		for {
			select {
			case size, ok := <-c.Resize:
				if !ok {
					return
				}
				_ = pty.Setsize(tty, &pty.Winsize{Rows: size.Rows, Cols: size.Cols})
			case <-done:
				return
			}
		}
	}()
	if c.Stdin != nil {
		go func() { _, _ = io.Copy(tty, c.Stdin) }()
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(c.Stdout, tty) // ends with EIO once nobody has the terminal
	}()
	exit, err := finish(ctx, op, cmd)
	close(done)
	<-resized
	select {
	case <-read:
	case <-time.After(2 * time.Second):
	}
	_ = tty.Close()
	<-read
	return exit, err
}

// Detach starts argv through setsid as a group's leader: setsid then forks,
// so that the keeper is nobody's child and outlives this program.
func (s *Sandbox) Detach(ctx context.Context, argv []string, stdin []byte) (string, error) {
	cmd := exec.CommandContext(ctx, findIn(s.p.Path, "setsid"), argv...)
	cmd.Env = []string{"PATH=" + s.p.Path}
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	answer, err := cmd.Output()
	return string(answer), err
}

// Remove kills what was launched, then deletes the record last.
func (s *Sandbox) Remove(ctx context.Context, keepWorkspace bool) error {
	op := "remove " + s.meta.Name
	now, err := s.p.read(s.meta.Name)
	if providers.Is(err, providers.NotFound) || err == nil && !now.Created.Equal(s.meta.Created) {
		return nil
	}
	process, err := s.Process(ctx)
	switch {
	case providers.Is(err, providers.NotFound):
	case err != nil:
		return err
	default:
		if err := process.Signal(ctx, providers.KILL); err != nil {
			return err
		}
		if _, err := process.Wait(ctx); err != nil {
			return err
		}
	}
	if !keepWorkspace {
		if err := errors.Join(os.RemoveAll(s.Workspace()), os.RemoveAll(s.Workspace()+".json")); err != nil {
			return fileError(op, err)
		}
	}
	if err := os.RemoveAll(s.p.sandboxDir(s.meta.Name)); err != nil {
		return fileError(op, err)
	}
	return nil
}

func findIn(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return name
}
