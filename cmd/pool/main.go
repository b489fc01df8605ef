// Command pool keeps N sandboxes, each running one Devin Outposts worker.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/configs"
	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

// version is set by the build.
var version = "dev"

func main() {
	if code, done := double(os.Args); done {
		os.Exit(code)
	}
	configs.Version = version
	app := newApp()
	// A command that waits says what goes on without it; a second Ctrl-C ends
	// one that cannot even do that.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	err := app.RunContext(ctx, reorder(os.Args, app))
	os.Exit(finish(err, app.ErrWriter))
}

// newApp is the whole command line.
func newApp() *cli.App {
	app := &cli.App{
		Name:    "pool",
		Usage:   "keep a number of Devin Outposts workers running, each in a sandbox of its own",
		Version: version,
		Description: "Start with `pool demo` (no account needed) or `pool init`, then `pool up --workers 4`.\n" +
			"Exit codes: 0 done, 1 refused or failed, 2 wrong command line, 3 no supervisor runs,\n" +
			"4 --wait gave up, 125 exec lost its command, 130 interrupted; exec passes its command's own on.",
		HideVersion:          true,
		EnableBashCompletion: true,
		Suggest:              true,
		Writer:               os.Stdout,
		ErrWriter:            os.Stderr,
		OnUsageError:         onUsageError,
		ExitErrHandler:       func(*cli.Context, error) {}, // main says it
		Flags:                append(poolFlags(), quietFlag()),
		Commands: []*cli.Command{
			upCommand(), downCommand(), statusCommand(), eventsCommand(), sessionsCommand(), logsCommand(),
			execCommand(), cpCommand(), scaleCommand(), restartCommand(), drainCommand(), undrainCommand(),
			doctorCommand(), verifyCommand(), configCommand(), initCommand(), outpostCommand(), demoCommand(), versionCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return failWith(exitUsage, "there is no command %q; pool --help lists them", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, command := range app.Commands {
		addPoolFlags(command)
	}
	return app
}

// addPoolFlags lets the flags that choose a pool stand behind the command too.
func addPoolFlags(command *cli.Command) {
	if len(command.Subcommands) > 0 {
		for _, sub := range command.Subcommands {
			addPoolFlags(sub)
		}
		return
	}
	command.Flags = append(command.Flags, poolFlags()...)
}

func poolFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "pool", Usage: "the pool's `NAME`, also $POOL_NAME"},
		&cli.StringFlag{Name: "config", Usage: "the configuration `FILE`, also $POOL_CONFIG; ./pool.toml is found by itself"},
	}
}

// double runs the outpost's or the worker's double: hidden commands for tests
// and the demo. They stand before the command line since the worker's flags
// are those of `devin`.
func double(args []string) (code int, done bool) {
	if len(args) < 2 {
		return 0, false
	}
	ctx := context.Background()
	switch args[1] {
	case "__outpost":
		return outposttest.RunServer(ctx, args[2:], os.Stdout, os.Stderr), true
	case "__worker":
		return outposttest.RunWorker(ctx, args[2:], os.Environ(), os.Stdin, os.Stdout, os.Stderr), true
	}
	return 0, false
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "the version of this program",
		Action: func(c *cli.Context) error {
			_, err := fmt.Fprintln(c.App.Writer, "pool "+version)
			return err
		},
	}
}
