package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "prove that a session's work arrives in a workspace of this pool",
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "timeout", Value: 15 * time.Minute, Usage: "how long to wait for the session"},
			&cli.StringFlag{Name: "value", Usage: "the `TEXT` to wait for instead of a random one"},
		},
		Action: withPool(verify),
	}
}

// proofFile is what the vendors' guides have the first session write.
const proofFile = "outpost-proof.txt"

// verify prints a task with a random value and waits until a session has
// written it.
func verify(c *cli.Context, client *control.Client) error {
	if c.NArg() > 0 {
		return usageError(c, "verify takes no argument (%q)", c.Args().First())
	}
	p, err := client.Pool(c.Context)
	if err != nil {
		return err
	}
	value := c.String("value")
	if value == "" {
		value = "pool-" + strings.ToLower(rand.Text()[:12])
	}
	fmt.Fprintf(c.App.Writer, "Start a session on the outpost %s in Devin with this task:\n\n  write %q to %s in the directory you start in, then stop\n\n", outpostName(p.Outpost), value, proofFile)
	say(c, "waiting up to %s for it to arrive in one of %d workspaces (Ctrl-C ends)", c.Duration("timeout"), len(p.Workers))
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	over, err := endedSessions(ctx, client)
	if err != nil {
		return err
	}
	found, err := awaitProof(ctx, client, value)
	if errors.Is(err, context.DeadlineExceeded) {
		return failWith(exitTimeout, "no workspace has it after %s; does `pool status` show the session, and was it started on this outpost?", c.Duration("timeout"))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "It works: %s has the file, written by %s\n", found.Name, writer(c.Context, client, found, over))
	return err
}

func outpostName(o control.Outpost) string {
	if o.Name == "" {
		return clean(o.ID)
	}
	return clean(o.Name)
}

// awaitProof looks into every workspace until one has the value.
func awaitProof(ctx context.Context, client *control.Client, value string) (control.Worker, error) {
	for {
		p, err := client.Pool(ctx)
		if err != nil {
			return control.Worker{}, err
		}
		for _, w := range p.Workers {
			if w.Sandbox != "" && hasProof(ctx, client, w.Name, value) {
				return w, nil
			}
		}
		select {
		case <-ctx.Done():
			return control.Worker{}, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// hasProof reads the file where sessions of older and newer CLIs write it
// (facts outposts.md 1.5).
func hasProof(ctx context.Context, client *control.Client, worker, value string) bool {
	var out strings.Builder
	_, err := client.Exec(ctx, worker, control.ExecRequest{
		Args: []string{"sh", "-c", "cat " + proofFile + " repos/*/" + proofFile + " 2>/dev/null"},
	}, control.ExecStreams{Stdout: &out, Stderr: io.Discard})
	return err == nil && strings.Contains(out.String(), value)
}

// endedSessions are those that cannot write anything any more.
func endedSessions(ctx context.Context, client *control.Client) (map[string]bool, error) {
	served, err := client.Sessions(ctx, 0)
	ended := map[string]bool{}
	for _, s := range served {
		if !s.To.IsZero() {
			ended[s.ID+" "+s.Worker] = true
		}
	}
	return ended, err
}

// newsPatience is how long a session may be unknown whose file is there: the
// pool hears of a claim with its next poll of Devin Cloud.
const newsPatience = 15 * time.Second

// writer is the session of a worker that was not over when the wait began.
func writer(ctx context.Context, client *control.Client, w control.Worker, over map[string]bool) string {
	ctx, cancel := context.WithTimeout(ctx, newsPatience)
	defer cancel()
	for {
		served, err := client.Sessions(ctx, 100)
		for _, s := range served {
			if s.Worker == w.Name && !over[s.ID+" "+s.Worker] {
				return clean(s.ID)
			}
		}
		select {
		case <-ctx.Done():
			return "a session that the pool did not see"
		case <-time.After(200 * time.Millisecond):
		}
		if err != nil {
			return "a session that the pool did not see"
		}
	}
}
