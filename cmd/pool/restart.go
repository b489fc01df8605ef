package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

func restartCommand() *cli.Command {
	return &cli.Command{
		Name: "restart", Usage: "restart workers, each once its session has ended",
		ArgsUsage: "WORKER…", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			nowFlag(),
			&cli.BoolFlag{Name: "force", Usage: "abandon the identity of a worker that stays unreachable; its sandbox is removed once it answers"},
			&cli.BoolFlag{Name: "wait", Usage: "return when the new workers run"},
			timeoutFlag(),
		},
		Action: withPool(restart),
	}
}

func drainCommand() *cli.Command {
	return &cli.Command{
		Name: "drain", Usage: "stop workers, each once its session has ended, until undrain",
		ArgsUsage: "WORKER…", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			nowFlag(),
			&cli.BoolFlag{Name: "wait", Usage: "return when they have stopped"},
			timeoutFlag(),
		},
		Action: withPool(drain),
	}
}

func undrainCommand() *cli.Command {
	return &cli.Command{
		Name: "undrain", Usage: "take a drain back",
		ArgsUsage: "WORKER…", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "wait", Usage: "return when they run"},
			timeoutFlag(),
		},
		Action: withPool(undrain),
	}
}

func nowFlag() cli.Flag {
	return &cli.BoolFlag{Name: "now", Usage: "do not wait for the session: it is cut off"}
}

func restart(c *cli.Context, client *control.Client) error {
	before, err := client.Pool(c.Context)
	if err != nil {
		return err
	}
	action := control.WorkerAction{Now: c.Bool("now"), Force: c.Bool("force")}
	err = eachWorker(c, func(name string) (control.Done, error) { return client.Restart(c.Context, name, action) })
	if err != nil || !c.Bool("wait") {
		return err
	}
	started := map[int]time.Time{}
	for _, w := range before.Workers {
		started[w.Slot] = w.Started
	}
	return waitForWorkers(c, client, "restarted", func(w control.Worker) bool {
		return isUp(w.State) && w.Started.After(started[w.Slot])
	})
}

func drain(c *cli.Context, client *control.Client) error {
	err := eachWorker(c, func(name string) (control.Done, error) {
		return client.Drain(c.Context, name, control.WorkerAction{Now: c.Bool("now")})
	})
	if err != nil || !c.Bool("wait") {
		return err
	}
	return waitForWorkers(c, client, "stopped", func(w control.Worker) bool { return !isUp(w.State) && !isLeaving(w.State) })
}

func undrain(c *cli.Context, client *control.Client) error {
	err := eachWorker(c, func(name string) (control.Done, error) { return client.Undrain(c.Context, name) })
	if err != nil || !c.Bool("wait") {
		return err
	}
	return waitForWorkers(c, client, "running", func(w control.Worker) bool { return isUp(w.State) })
}

// eachWorker does one thing to every worker named, also when it fails for
// some; the error names those.
func eachWorker(c *cli.Context, do func(name string) (control.Done, error)) error {
	if c.NArg() == 0 {
		return usageError(c, "%s needs a worker", c.Command.Name)
	}
	var failed []error
	for _, name := range c.Args().Slice() {
		done, err := do(name)
		if errors.Is(err, control.ErrNotRunning) {
			return err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		fmt.Fprintln(c.App.Writer, clean(done.Detail))
	}
	return errors.Join(failed...)
}

func isUp(state string) bool { return state == "idle" || state == "busy" }

// waitForWorkers waits until every worker named is as reached says. One that
// is no longer listed will never be: it counts as stopped, and fails else.
func waitForWorkers(c *cli.Context, client *control.Client, what string, reached func(control.Worker) bool) error {
	names := c.Args().Slice()
	return waitFor(c, client, func(p control.Pool) (string, bool, error) {
		var waiting []string
		for _, name := range names {
			w, found := workerNamed(p, name)
			switch {
			case !found && what != "stopped":
				return "", false, failWith(exitFailure, "%s is gone from the pool", name)
			case found && !reached(w):
				waiting = append(waiting, clean(w.Name)+" ("+withReason(w.State, w.Reason)+")")
			}
		}
		done := len(waiting) == 0
		progress := fmt.Sprintf("%d of %d %s", len(names)-len(waiting), len(names), what)
		if !done {
			progress += ", not yet: " + strings.Join(waiting, ", ")
		}
		return progress, done, nil
	})
}

// workerNamed finds a worker by its name or its number.
func workerNamed(p control.Pool, name string) (control.Worker, bool) {
	for _, w := range p.Workers {
		if w.Name == name || strconv.Itoa(w.Slot) == name {
			return w, true
		}
	}
	return control.Worker{}, false
}
