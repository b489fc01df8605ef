package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool"
	"github.com/outpostpool/pool/pool/control"
)

func upCommand() *cli.Command {
	return &cli.Command{
		Name: "up", Usage: "start the pool, or set the size of the one that runs",
		OnUsageError: onUsageError, UseShortOptionHandling: true,
		Flags: append(setupFlags(),
			&cli.IntFlag{Name: "workers", Aliases: []string{"n"}, Value: -1, DefaultText: "the last pool scale, else the configuration", Usage: "how many workers, as pool scale `N`"},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "go to the background once the workers run; harmless when the pool runs already, so cron can keep it alive"},
			&cli.BoolFlag{Name: "force", Usage: "with -d: start a pool that was taken down on purpose"},
			&cli.StringFlag{Name: "adopt", Usage: "take over the sandboxes of `UID`, whose host is dead or whose records are lost"},
			&cli.BoolFlag{Name: "new", Usage: "start beside sandboxes of another pool of this name"},
		),
		Action: up,
	}
}

// childEnv marks the process that `up -d` leaves in the background.
const childEnv = "POOL_UP_CHILD"

func inBackground() bool { return os.Getenv(childEnv) != "" }

func up(c *cli.Context) error {
	if c.NArg() > 0 {
		return usageError(c, "up takes no argument (%q); the size is --workers N", c.Args().First())
	}
	if c.IsSet("workers") && c.Int("workers") < 0 {
		return usageError(c, "--workers %d is not a size", c.Int("workers"))
	}
	if c.String("adopt") != "" && c.Bool("new") {
		return usageError(c, "--adopt and --new exclude each other")
	}
	choice, err := choosePool(c, true)
	if err != nil {
		return err
	}
	client := control.Dial(filepath.Join(choice.StateDir, control.SocketName))
	defer client.Close()
	if running, err := runs(c.Context, client); err != nil {
		return err
	} else if running {
		if err := isPool(c.Context, client, choice.Pool, choice.StateDir); err != nil {
			return err
		}
		return upRunning(c, client)
	}
	// What is wrong with the records shows at the start itself.
	memory, _ := pool.Recall(choice.StateDir)
	if c.Bool("detach") && !inBackground() && memory.Down != "" && !c.IsSet("workers") && !c.Bool("force") {
		say(c, "pool %s was taken down on purpose at %s, so nothing is started; --force or --workers N starts it", cmp.Or(memory.Name, choice.Pool), memory.Down)
		return nil
	}
	if choice.ConfigFile == "" && memory.ConfigFile != "" {
		// Found by its state folder alone, as from cron: it starts as it last did.
		if choice, err = rememberedChoice(c, memory.ConfigFile); err != nil {
			return err
		}
	}
	config, err := configOf(choice)
	if err != nil {
		return err
	}
	s := &setup{choice: choice, config: config}
	if err := s.resolve(c); err != nil {
		return err
	}
	if c.Bool("detach") && !inBackground() {
		return detach(c, s, client)
	}
	return runUp(c, s)
}

// runs reports whether a supervisor answers on the socket.
func runs(ctx context.Context, client *control.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := client.Version(ctx)
	if errors.Is(err, control.ErrNotRunning) {
		return false, nil
	}
	return err == nil, err
}

// upRunning talks to the supervisor that runs: it changes nothing but, when a
// size is given, the size.
func upRunning(c *cli.Context, client *control.Client) error {
	if c.IsSet("workers") {
		result, err := client.Scale(c.Context, control.ScaleRequest{Workers: c.Int("workers")})
		if err != nil {
			return err
		}
		say(c, "the pool runs already: %s", result.Detail)
		return nil
	}
	p, err := client.Pool(c.Context)
	if err != nil {
		return err
	}
	say(c, "pool %s runs already (pid %d): %s", p.Name, p.PID, p.Detail)
	return nil
}

// runUp runs the supervisor in this process until the pool is down or left.
func runUp(c *cli.Context, s *setup) error {
	run, err := prepareUp(c, s)
	if errors.Is(err, pool.ErrRunning) {
		return secondUp(c, s)
	}
	if err != nil {
		return err
	}
	return run.serve(c)
}

// secondUp is an up that lost the race for the lock: it talks to the winner,
// which may need a moment to answer.
func secondUp(c *cli.Context, s *setup) error {
	client := control.Dial(filepath.Join(s.choice.StateDir, control.SocketName))
	defer client.Close()
	for range 100 {
		if running, err := runs(c.Context, client); err == nil && running {
			return upRunning(c, client)
		}
		select {
		case <-c.Context.Done():
			return c.Context.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return failWith(exitFailure, "another supervisor holds %s and does not answer; its pid is in that file", filepath.Join(s.choice.StateDir, "pool.lock"))
}

// printNotes says once what an operator should know.
func printNotes(c *cli.Context, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(c.App.ErrWriter, "pool: "+n)
	}
}
