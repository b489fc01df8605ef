package main

import (
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

// connect makes a client of the supervisor of the pool that the command line
// means. Nothing is sent yet.
func connect(c *cli.Context) (*control.Client, error) {
	ref, err := findPool(c)
	if err != nil {
		return nil, err
	}
	return control.Dial(filepath.Join(ref.StateDir, control.SocketName)), nil
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
