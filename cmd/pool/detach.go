package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool"
	"github.com/outpostpool/pool/pool/control"
)

// startPatience is how long `up -d` watches the workers start. They go on
// starting after that.
const startPatience = 2 * time.Minute

// detach starts the supervisor as a process of its own session and returns
// when the workers have started, or says why they have not.
func detach(c *cli.Context, s *setup, client *control.Client) error {
	if err := makeStateDir(s.choice.StateDir); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	said := filepath.Join(pool.LogDir(s.choice.StateDir), "up.out")
	out, err := os.OpenFile(said, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	child := exec.Command(self, os.Args[1:]...)
	child.Env = append(os.Environ(), childEnv+"=1", "NO_COLOR=1")
	child.Stdout, child.Stderr = out, out
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	return awaitStart(c, client, ended, said)
}

// awaitStart watches a pool start until its workers run, one is in trouble, or
// the supervisor is gone.
func awaitStart(c *cli.Context, client *control.Client, ended <-chan error, said string) error {
	ctx, cancel := context.WithTimeout(c.Context, startPatience)
	defer cancel()
	for {
		p, err := client.Pool(ctx)
		switch {
		case err == nil && p.Running >= p.Desired:
			printNotes(c, p.Notes)
			say(c, "pool %s: %s (pid %d); `pool status` shows it, `pool down` ends it", p.Name, p.Detail, p.PID)
			return nil
		case err == nil && p.Broken > 0:
			return failWith(exitFailure, "the supervisor runs and keeps trying, but:\n%s", troubles(p))
		case err == nil && p.State == control.PoolHeld:
			return failWith(exitFailure, "the supervisor runs, but %s", p.Detail)
		case err != nil && !errors.Is(err, control.ErrNotRunning) && ctx.Err() == nil:
			return childLost(ended, said, err)
		}
		select {
		case err := <-ended:
			return childFailed(err, said)
		case <-ctx.Done():
			if c.Context.Err() != nil {
				say(c, "the supervisor goes on starting in the background; `pool down` ends it")
				return c.Context.Err()
			}
			return failWith(exitTimeout, "after %s: %s; the supervisor goes on, `pool status` shows how far it is", startPatience, p.Detail)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// lastWordsPatience is how long a supervisor that broke off an answer has to
// end.
const lastWordsPatience = 2 * time.Second

// childLost is what becomes of a start whose supervisor does not answer as it
// should: if it ends, its own words say why.
func childLost(ended <-chan error, said string, lost error) error {
	select {
	case err := <-ended:
		return childFailed(err, said)
	case <-time.After(lastWordsPatience):
		return lost
	}
}

// troubles names the workers that did not start, with their reasons.
func troubles(p control.Pool) string {
	var lines []string
	for _, w := range p.Workers {
		if w.Health == control.Broken || w.State == "backoff" {
			lines = append(lines, fmt.Sprintf("  %s (%s): %s", w.Name, w.State, w.Reason))
		}
	}
	return strings.Join(lines, "\n") + "\n`pool logs` shows their last lines"
}

// childFailed repeats what the supervisor said before it ended.
func childFailed(err error, said string) error {
	file, openErr := os.Open(said)
	if openErr != nil {
		return fmt.Errorf("the supervisor ended at once: %w", errors.Join(err, openErr))
	}
	defer file.Close()
	text, readErr := io.ReadAll(io.LimitReader(file, 8<<10))
	if readErr != nil {
		return fmt.Errorf("the supervisor ended at once: %w", readErr)
	}
	if err == nil {
		fmt.Fprint(os.Stderr, string(text)) // it found another that runs
		return nil
	}
	code := exitFailure
	var exited *exec.ExitError
	if errors.As(err, &exited) && exited.ExitCode() > 0 {
		code = exited.ExitCode()
	}
	return failWith(code, "%s", strings.TrimPrefix(strings.TrimSpace(string(text)), "pool: "))
}
