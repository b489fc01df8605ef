package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/outpostpool/pool/pool/control"
)

func execCommand() *cli.Command {
	return &cli.Command{
		Name: "exec", Usage: "run a command in a worker's sandbox",
		ArgsUsage: "WORKER -- CMD…",
		OnUsageError: func(c *cli.Context, err error, sub bool) error {
			return &exitError{exitExecFailed, onUsageError(c, err, sub)}
		},
		UseShortOptionHandling: true,
		Description: "Starts in the workspace ($WORKSPACE) as the worker's user, with its environment minus\n" +
			"every secret, in every state in which the sandbox exists.\n\n" +
			"Exit codes: the command's own, whatever it is; 125 when none is known, because pool\n" +
			"failed or the connection was lost. 126, 127 and 128+N are, by custom, the shell's words\n" +
			"for cannot be run, not found and ended by signal N.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "stdin", Aliases: []string{"i"}, Usage: "pass standard input on"},
			&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give the command a terminal"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` for the command"},
			&cli.StringFlag{Name: "dir", Aliases: []string{"w"}, Usage: "start in `DIR`, relative to the workspace"},
		},
		Action: func(c *cli.Context) error { return ownFailure(withPool(execute)(c)) },
	}
}

// ownFailure gives every failure that is not the command's the code 125, a
// wrong command line too: 2 may well be the command's.
func ownFailure(err error) error {
	if err == nil || err.Error() == "" || errors.Is(err, syscall.EPIPE) {
		return err
	}
	return &exitError{exitExecFailed, err}
}

func execute(c *cli.Context, client *control.Client) error {
	req, err := execRequest(c)
	if err != nil {
		return err
	}
	streams := control.ExecStreams{Stdout: c.App.Writer, Stderr: c.App.ErrWriter}
	if c.Bool("stdin") {
		streams.Stdin = c.App.Reader
	}
	ctx := c.Context
	if req.TTY {
		session, err := openTerminal(ctx, c.App.Reader, c.App.Writer)
		if err != nil {
			return fmt.Errorf("exec -t: %w", err)
		}
		defer session.close()
		ctx, req.Size, streams.Resize = session.ctx, session.size, session.sizes
	}
	code, err := client.Exec(ctx, c.Args().First(), req, streams)
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	if code != 0 {
		return cli.Exit("", code)
	}
	return nil
}

func execRequest(c *cli.Context) (control.ExecRequest, error) {
	req := control.ExecRequest{Args: c.Args().Tail(), Dir: c.String("dir"), TTY: c.Bool("tty")}
	if len(req.Args) == 0 {
		return req, usageError(c, "exec needs a worker and a command")
	}
	for _, pair := range c.StringSlice("env") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return req, usageError(c, "-e %s: must be NAME=VALUE", name)
		}
		if req.Env == nil {
			req.Env = map[string]string{}
		}
		req.Env[name] = value
	}
	return req, nil
}

// terminal is our terminal while a command in a sandbox has it.
type terminal struct {
	ctx   context.Context // ends with a signal that would end us
	size  control.Size
	sizes chan control.Size
	close func()
}

// openTerminal makes the terminal raw, so that keys reach the command, and
// follows its size. Signals that would end this program end ctx instead: the
// terminal must be given back first.
func openTerminal(ctx context.Context, in, out any) (*terminal, error) {
	input, isFile := in.(*os.File)
	if !isFile || !isTerminal(in) || !isTerminal(out) {
		return nil, errors.New("standard input and output must be a terminal; leave -t out")
	}
	state, err := term.MakeRaw(int(input.Fd()))
	if err != nil {
		return nil, fmt.Errorf("cannot make the terminal raw: %w", err)
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	t := &terminal{ctx: ctx, size: sizeOf(input), sizes: make(chan control.Size)}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changes:
			}
			select {
			case <-ctx.Done():
				return
			case t.sizes <- sizeOf(input):
			}
		}
	}()
	t.close = func() {
		signal.Stop(changes)
		cancel()
		term.Restore(int(input.Fd()), state)
	}
	return t, nil
}

func sizeOf(f *os.File) control.Size {
	cols, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return control.Size{}
	}
	return control.Size{Rows: uint16(rows), Cols: uint16(cols)}
}
