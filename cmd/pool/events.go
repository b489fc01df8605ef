package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/worker/logs"
)

func eventsCommand() *cli.Command {
	return &cli.Command{
		Name: "events", Usage: "what happened in the pool, and why",
		ArgsUsage: "[WORKER]", OnUsageError: onUsageError,
		UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as things happen, also over restarts of the supervisor"},
			&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Value: 50, Usage: "the last `N`; 0 is all that are kept"},
			outputFlag("json"),
		},
		Action: withPool(events),
	}
}

func events(c *cli.Context, client *control.Client) error {
	q := control.EventQuery{Worker: c.Args().First(), Limit: c.Int("number")}
	if c.NArg() > 1 || q.Limit < 0 {
		return usageError(c, "events takes one worker at most, and a number from 0")
	}
	out, asJSON := c.App.Writer, wantsJSON(c)
	emit := func(e control.Event) error {
		if asJSON {
			return jsonLine(out, e)
		}
		return printStyled(out, renderEvent(e, time.Local)+"\n")
	}
	if c.Bool("follow") {
		return client.FollowEvents(c.Context, q, tellLoss(c), emit)
	}
	if asJSON {
		return printEvents(c, client, q)
	}
	return client.Events(c.Context, q, emit)
}

// printEvents prints one list: what ends is a document, what follows is lines.
func printEvents(c *cli.Context, client *control.Client, q control.EventQuery) error {
	list := []control.Event{}
	err := client.Events(c.Context, q, func(e control.Event) error {
		list = append(list, e)
		return nil
	})
	if err != nil {
		return err
	}
	return printJSON(c.App.Writer, list)
}

// tellLoss tells whoever follows that the supervisor went, once each time.
func tellLoss(c *cli.Context) func(error) {
	return func(err error) {
		say(c, "pool: %v; waiting for it to come back (Ctrl-C ends)", err)
	}
}

// renderEvent is one line: when, which worker, what became of it, why.
func renderEvent(e control.Event, zone *time.Location) string {
	what := e.Kind
	if e.From != "" || e.To != "" {
		what = strings.TrimSpace(e.From + " → " + e.To)
	}
	worker := e.Worker
	if worker == "" {
		worker = "pool"
	}
	line := fmt.Sprintf("%s  %-8s  %s", styled(dim, e.At.In(zone).Format(time.DateTime)), clean(worker), styled(stateStyle(e.To), clean(what)))
	if e.Reason != "" {
		line += ": " + clean(e.Reason)
	}
	var fields []string
	for name, value := range e.Fields {
		if strings.ContainsAny(value, "\r\n") {
			continue // a log's tail; -o json has it
		}
		fields = append(fields, clean(name)+"="+clean(value))
	}
	sort.Strings(fields)
	if len(fields) > 0 {
		line += "  " + styled(dim, strings.Join(fields, " "))
	}
	return line
}

// clean makes text that others wrote harmless in a line of ours.
func clean(s string) string {
	return logs.Clean(strings.NewReplacer("\n", " ", "\r", " ").Replace(s), false)
}

// jsonLine writes v as one line.
func jsonLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
