package main

import (
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
	poollogs "github.com/outpostpool/pool/worker/logs"
)

func logsCommand() *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "what workers, or the supervisor, have printed",
		ArgsUsage: "[WORKER…]", OnUsageError: onUsageError,
		UseShortOptionHandling: true,
		Description: "Without a WORKER: of all. On a terminal, control characters are made harmless and\n" +
			"colours are kept; elsewhere lines come as they were written.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as lines come, also over restarts of worker, sandbox and supervisor"},
			&cli.StringFlag{Name: "tail", Aliases: []string{"n"}, Value: strconv.Itoa(control.DefaultTail), Usage: "the last `N` lines of each worker, or all"},
			&cli.StringFlag{Name: "since", Usage: "not before `TIME`: 10m (ago) or 2026-12-01T03:00:00Z; without --tail, all since then"},
			&cli.StringFlag{Name: "session", Usage: "while the session `ID` was served"},
			&cli.BoolFlag{Name: "supervisor", Usage: "the supervisor's own log"},
			outputFlag("json"),
		},
		Action: withPool(showLogs),
	}
}

func showLogs(c *cli.Context, client *control.Client) error {
	q, err := logQuery(c, time.Now())
	if err != nil {
		return err
	}
	emit := linePrinter(c, len(q.Workers) != 1 && !q.Supervisor)
	if q.Follow {
		return client.FollowLogs(c.Context, q, tellLoss(c), emit)
	}
	return client.Logs(c.Context, q, emit)
}

func logQuery(c *cli.Context, now time.Time) (control.LogQuery, error) {
	q := control.LogQuery{
		Workers: c.Args().Slice(), Session: c.String("session"),
		Supervisor: c.Bool("supervisor"), Follow: c.Bool("follow"),
	}
	if q.Supervisor && len(q.Workers) > 0 {
		return q, usageError(c, "--supervisor is the supervisor's own log; leave the workers out")
	}
	var err error
	if q.Since, err = parseSince(c.String("since"), now); err != nil {
		return q, usageError(c, "--since: %v", err)
	}
	if q.Tail, err = parseTail(c.String("tail")); err != nil {
		return q, usageError(c, "--tail: %v", err)
	}
	if chosen := q.Session != "" || !q.Since.IsZero(); chosen && !c.IsSet("tail") {
		q.Tail = -1 // what was chosen is not cut to a hundred lines
	}
	return q, nil
}

// linePrinter prints lines as the flags and the kind of output want them.
func linePrinter(c *cli.Context, prefixed bool) func(control.LogLine) error {
	out := c.App.Writer
	if wantsJSON(c) {
		return func(l control.LogLine) error { return jsonLine(out, l) }
	}
	terminal, colour := isTerminal(out), hasColour(out)
	return func(l control.LogLine) error {
		text := l.Text
		if terminal {
			text = poollogs.Clean(text, colour)
		}
		if prefixed {
			text = l.Worker + " | " + text
		}
		_, err := io.WriteString(out, text+"\n")
		return err
	}
}

// parseTail reads a number of lines; all of them are -1.
func parseTail(text string) (int, error) {
	if text == "all" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, failWith(exitUsage, "%q is neither a number of lines nor all", text)
	}
	return n, nil
}

// parseSince reads a time, or a span before now. Empty is no time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if span, err := time.ParseDuration(text); err == nil && span >= 0 {
		return now.Add(-span), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, failWith(exitUsage, "%q is neither a span such as 10m nor a time such as 2026-12-01T03:00:00Z", text)
	}
	return t, nil
}
