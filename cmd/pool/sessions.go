package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

func sessionsCommand() *cli.Command {
	return &cli.Command{
		Name: "sessions", Usage: "the sessions served, newest first",
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Value: 50, Usage: "the last `N`; 0 is all that are kept"},
			outputFlag("json"),
		},
		Action: withPool(sessions),
	}
}

func sessions(c *cli.Context, client *control.Client) error {
	if c.NArg() > 0 || c.Int("number") < 0 {
		return usageError(c, "sessions takes no arguments, and a number from 0")
	}
	list, err := client.Sessions(c.Context, c.Int("number"))
	if err != nil {
		return err
	}
	if wantsJSON(c) {
		return printJSON(c.App.Writer, list)
	}
	if len(list) == 0 {
		say(c, "no session has been served yet")
		return nil
	}
	return printStyled(c.App.Writer, renderSessions(list, time.Now(), time.Local, widthOf(c.App.Writer)))
}

func renderSessions(list []control.ServedSession, now time.Time, zone *time.Location, width int) string {
	rows := [][]string{{"SESSION", "WORKER", "FROM", "TO", "FOR", "END"}}
	for _, s := range list {
		to, until := "now", now
		if !s.To.IsZero() {
			to, until = clock(s.To.In(zone), now), s.To
		}
		rows = append(rows, []string{clean(s.ID), clean(s.Worker), clock(s.From.In(zone), now), to, age(until.Sub(s.From)), clean(s.End)})
	}
	return table(rows, width)
}
