package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

func downCommand() *cli.Command {
	return &cli.Command{
		Name: "down", Usage: "stop the workers, each after its session, remove the sandboxes and end",
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "now", Usage: "do not wait for sessions; they are cut off"},
			&cli.BoolFlag{Name: "leave", Usage: "end only the supervisor; the workers go on and the next up adopts them"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask about busy workers"},
		},
		Action: withPool(down),
	}
}

func down(c *cli.Context, client *control.Client) error {
	if c.NArg() > 0 {
		return usageError(c, "down takes no argument (%q); `pool drain WORKER` stops one worker", c.Args().First())
	}
	request := control.DownRequest{Now: c.Bool("now"), Leave: c.Bool("leave")}
	if request.Now && request.Leave {
		return usageError(c, "--now and --leave exclude each other")
	}
	if !request.Now && !request.Leave && !c.Bool("yes") {
		proceed, err := askAboutBusy(c, client, &request)
		if err != nil || !proceed {
			return err
		}
	}
	done, err := client.Down(c.Context, request)
	if err != nil {
		return err
	}
	say(c, "%s", done.Detail)
	return awaitEnd(c, client, done.Detail)
}

// askAboutBusy asks a person on a terminal what becomes of running sessions.
func askAboutBusy(c *cli.Context, client *control.Client, request *control.DownRequest) (proceed bool, err error) {
	p, err := client.Pool(c.Context)
	if err != nil {
		return false, err
	}
	if p.Busy == 0 || !isTerminal(os.Stdin) || !isTerminal(c.App.ErrWriter) {
		return true, nil
	}
	for _, w := range p.Workers {
		if w.Session != nil {
			fmt.Fprintf(c.App.ErrWriter, "%s serves %s for %s\n", w.Name, clean(w.Session.ID), age(p.Now.Sub(w.Session.Since)))
		}
	}
	fmt.Fprint(c.App.ErrWriter, "[w]ait for them, cut them off [n]ow, or [c]ancel? ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return false, failWith(exitInterrupted, "nothing was stopped")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "w", "wait":
		return true, nil
	case "n", "now":
		request.Now = true
		return true, nil
	}
	say(c, "nothing was stopped")
	return false, nil
}

// awaitEnd shows who is waited for until the supervisor is gone. Ctrl-C ends
// the watching, not the end.
func awaitEnd(c *cli.Context, client *control.Client, shown string) error {
	pid := 0
	for {
		p, err := client.Pool(c.Context)
		switch {
		case errors.Is(err, control.ErrNotRunning), errors.Is(err, control.ErrLost):
			awaitExit(pid)
			say(c, "the supervisor has ended")
			return nil
		case errors.Is(err, context.Canceled):
			say(c, "the pool goes on going down; `pool status` shows how far it is")
			return err
		case err == nil:
			pid = p.PID
			if p.Detail != shown {
				shown = p.Detail
				say(c, "%s", shown)
			}
		}
		select {
		case <-c.Context.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// exitPatience is how long a supervisor that answers no more may take to end.
const exitPatience = 10 * time.Second

// awaitExit waits for the process too, so that what follows `pool down` in a
// script finds nothing of it.
func awaitExit(pid int) {
	for end := time.Now().Add(exitPatience); pid > 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); err != nil {
			return
		}
	}
}
