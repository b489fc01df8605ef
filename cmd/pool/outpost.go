package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/worker/outpost"
)

func outpostCommand() *cli.Command {
	return &cli.Command{
		Name: "outpost", Usage: "list, create or delete outposts of the account",
		Subcommands: []*cli.Command{
			{Name: "ls", Usage: "the outposts that the token sees", OnUsageError: onUsageError,
				Flags: append(accountFlags(), outputFlag("json")), Action: outpostList},
			{Name: "create", Usage: "make an outpost and print its id", ArgsUsage: "NAME", OnUsageError: onUsageError,
				Flags: append(accountFlags(),
					&cli.StringFlag{Name: "platform", Value: platforms[runtime.GOOS], Usage: "linux, macos or windows"},
					&cli.StringFlag{Name: "description", Usage: "what it is for"}), Action: outpostCreate},
			{Name: "delete", Usage: "delete an outpost", ArgsUsage: "ID", OnUsageError: onUsageError,
				Flags: accountFlags(), Action: outpostDelete},
		},
	}
}

// accountFlags are setupFlags without the outpost.
func accountFlags() []cli.Flag { return setupFlags()[1:] }

// account makes a client for the account; no outpost needs to be named.
func account(c *cli.Context) (*outpost.Client, error) {
	choice, err := choosePool(c, true)
	if err != nil {
		return nil, err
	}
	s := &setup{choice: choice}
	if s.config, err = configOf(choice); err != nil {
		return nil, err
	}
	s.config.Outpost.ID, s.config.Outpost.Name = "any", ""
	if err := s.resolve(c); err != nil {
		return nil, err
	}
	return s.fleet, nil
}

// answerPatience bounds one question to Devin Cloud that a person waits for.
const answerPatience = time.Minute

func outpostList(c *cli.Context) error {
	client, err := account(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, answerPatience)
	defer cancel()
	all, err := client.Outposts(ctx)
	if err != nil {
		return err
	}
	if wantsJSON(c) {
		return printJSON(c.App.Writer, all)
	}
	rows := [][]string{{"NAME", "ID", "PLATFORM", "WAITING", "CLAIMED"}}
	for _, o := range all {
		rows = append(rows, []string{clean(o.Name), clean(o.ID), clean(o.Platform), countOr(o.QueueDepth), countOr(o.ActiveClaims)})
	}
	return printStyled(c.App.Writer, table(rows, 0))
}

// countOr writes a count, "?" where it was not told.
func countOr(n int) string {
	if n < 0 {
		return "?"
	}
	return strconv.Itoa(n)
}

func outpostCreate(c *cli.Context) error {
	if c.NArg() != 1 {
		return usageError(c, "create takes the outpost's NAME")
	}
	client, err := account(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, answerPatience)
	defer cancel()
	made, err := client.CreateOutpost(ctx, outpost.NewOutpost{Name: c.Args().First(), Platform: c.String("platform"), Description: c.String("description")})
	if outpost.IsUnreachable(err) {
		return fmt.Errorf("%w; it may exist all the same: pool outpost ls tells", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.App.Writer, made.ID)
	return err
}

func outpostDelete(c *cli.Context) error {
	if c.NArg() != 1 || !outpost.IsOutpostID(c.Args().First()) {
		return usageError(c, "delete takes the outpost's ID, as pool outpost ls prints it")
	}
	client, err := account(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, answerPatience)
	defer cancel()
	if err := client.DeleteOutpost(ctx, c.Args().First()); err != nil {
		return err
	}
	say(c, "deleted %s", c.Args().First())
	return nil
}
