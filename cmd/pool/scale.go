package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

func scaleCommand() *cli.Command {
	return &cli.Command{
		Name: "scale", Usage: "ask for a number of workers",
		ArgsUsage: "N", OnUsageError: onUsageError,
		Description: "Holds until the next firing of a schedule, or as the flags say. Workers that serve a\n" +
			"session finish it first. Prints nothing when nothing changes.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "wait", Usage: "return when N workers run and no other drains; exit code 4 when --timeout passes first"},
			timeoutFlag(),
			&cli.DurationFlag{Name: "for", Usage: "hold the size for `TIME`, as 2h"},
			&cli.BoolFlag{Name: "pin", Usage: "hold the size until the next scale"},
		},
		Action: withPool(scale),
	}
}

func timeoutFlag() cli.Flag {
	return &cli.DurationFlag{Name: "timeout", Usage: "with --wait: give up after `TIME`; what was asked for goes on (0: never)"}
}

func scale(c *cli.Context, client *control.Client) error {
	n, err := strconv.Atoi(c.Args().First())
	if err != nil || n < 0 || c.NArg() != 1 {
		return usageError(c, "scale takes one number of workers, from 0")
	}
	if c.Duration("for") > 0 && c.Bool("pin") {
		return usageError(c, "--for and --pin exclude each other")
	}
	if c.Duration("for") < 0 {
		return usageError(c, "--for must be a span from now on, as 2h")
	}
	res, err := client.Scale(c.Context, control.ScaleRequest{Workers: n, For: c.Duration("for"), Pin: c.Bool("pin")})
	if err != nil {
		return err
	}
	if res.Changed {
		fmt.Fprintln(c.App.Writer, clean(res.Detail))
	}
	if !c.Bool("wait") {
		return nil
	}
	return waitFor(c, client, func(p control.Pool) (string, bool, error) { return settled(p, n) })
}

// settled tells whether the pool has the n workers asked for, in a line of
// progress. It fails when somebody has asked for another size since.
func settled(p control.Pool, n int) (progress string, done bool, err error) {
	if p.Desired != n {
		return "", false, failWith(exitFailure, "the size is %d by now, not the %d asked for (%s)", p.Desired, n, p.SizeRule.Source)
	}
	leaving := 0
	for _, w := range p.Workers {
		if isLeaving(w.State) {
			leaving++
		}
	}
	progress = fmt.Sprintf("%d of %d workers run", p.Running, n)
	if leaving > 0 {
		progress += fmt.Sprintf(", %d leaving", leaving)
	}
	if p.Broken > 0 {
		progress += fmt.Sprintf(", %d broken", p.Broken)
	}
	return progress + ": " + clean(p.Detail), p.Running == n && leaving == 0, nil
}

// isLeaving tells whether a worker in this state is on its way out.
func isLeaving(state string) bool {
	switch state {
	case "draining", "stopping", "snapshotting", "removing":
		return true
	}
	return false
}

// waitFor follows the pool, and prints each new line of progress, until look
// says that it is done, or fails, or --timeout passes.
func waitFor(c *cli.Context, client *control.Client, look func(control.Pool) (string, bool, error)) error {
	ctx, cancel := c.Context, context.CancelFunc(func() {})
	if limit := c.Duration("timeout"); limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	enough := errors.New("enough")
	last, began := "", time.Now()
	err := client.FollowPool(ctx, tellLoss(c), func(p control.Pool) error {
		progress, done, err := look(p)
		if err != nil {
			return err
		}
		if progress != last && progress != "" {
			say(c, "%s", progress)
			last = progress
		}
		if done {
			return enough
		}
		return nil
	})
	switch {
	case errors.Is(err, enough):
		return nil
	case errors.Is(err, context.DeadlineExceeded) && c.Context.Err() == nil:
		return failWith(exitTimeout, "gave up waiting after %s (%s); what was asked for goes on", age(time.Since(began)), last)
	}
	return err
}
