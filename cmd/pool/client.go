package main

import (
	"context"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

// connect makes a client of the supervisor of the pool that the command line
// means.
func connect(c *cli.Context) (*control.Client, error) {
	ref, err := findPool(c)
	if err != nil {
		return nil, err
	}
	client := control.Dial(filepath.Join(ref.StateDir, control.SocketName))
	if err := isPool(c.Context, client, ref.Name, ref.StateDir); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// isPool fails when the supervisor of another pool answers in the state folder.
// That takes a state_dir that two configurations name; else the folder has the
// pool's own name and nothing is asked.
func isPool(ctx context.Context, client *control.Client, name, stateDir string) error {
	if filepath.Base(stateDir) == name {
		return nil
	}
	p, err := client.Pool(ctx)
	if err != nil || p.Name == name {
		return nil // who does not answer is told of by the command itself
	}
	return failWith(exitFailure, "pool %s runs in %s, not %s; give each pool a [pool] state_dir of its own", p.Name, stateDir, name)
}

// withPool is the action of a command that talks to the supervisor.
func withPool(do func(*cli.Context, *control.Client) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		client, err := connect(c)
		if err != nil {
			return err
		}
		defer client.Close()
		return do(c, client)
	}
}
