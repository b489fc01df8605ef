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
	found, err := awaitProof(ctx, client, value)
	if errors.Is(err, context.DeadlineExceeded) {
		return failWith(exitTimeout, "no workspace has it after %s; does `pool status` show the session, and was it started on this outpost?", c.Duration("timeout"))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "It works: %s has the file, written by %s\n", found.Name, sessionName(ctx, client, found))
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

// sessionName is the session that the worker serves or served last.
func sessionName(ctx context.Context, client *control.Client, w control.Worker) string {
	served, err := client.Sessions(ctx, 100)
	if err == nil {
		for _, s := range served {
			if s.Worker == w.Name {
				return clean(s.ID)
			}
		}
	}
	return "a session that has left already"
}
