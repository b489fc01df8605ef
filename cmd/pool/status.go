package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "the pool in a sentence, its workers, and what is wrong",
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{outputFlag("wide", "json")},
		Action:       withPool(status),
	}
}

func status(c *cli.Context, client *control.Client) error {
	if c.NArg() > 0 {
		return usageError(c, "status takes no arguments")
	}
	p, err := client.Pool(c.Context)
	if err != nil {
		return err
	}
	if wantsJSON(c) {
		return printJSON(c.App.Writer, p)
	}
	return printStyled(c.App.Writer, renderStatus(p, c.String("output") == "wide", widthOf(c.App.Writer)))
}

// renderStatus writes the pool for a person: the sentence, what is noteworthy
// about size, API and token, the workers, and a line for each trouble. Rows
// are cut at width columns (0: never); sentences are not, as their end says
// what to do. Colour only repeats what a word says.
func renderStatus(p control.Pool, wide bool, width int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s is %s: %s\n", styled(bold, clean(p.Name)), styled(poolStyle(p.State), string(p.State)), clean(p.Detail))
	for _, line := range noteworthy(p) {
		out.WriteString(line + "\n")
	}
	if len(p.Workers) > 0 {
		out.WriteString("\n" + workerTable(p, wide, width))
	}
	if lines := workerTroubles(p); len(lines) > 0 {
		out.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	}
	return out.String()
}

// noteworthy is what differs from a pool of its configured size with an API
// that answers and a token that is accepted.
func noteworthy(p control.Pool) (lines []string) {
	if rule := p.SizeRule; rule.Source != "config" && rule.Source != "" {
		line := fmt.Sprintf("size: %d by %s", p.Desired, rule.Source)
		if !rule.Until.IsZero() {
			line += " until " + clock(rule.Until.In(p.Now.Location()), p.Now)
		}
		lines = append(lines, withDetail(line, rule.Detail))
	}
	switch p.API.State {
	case "stale":
		line := "Devin Cloud does not answer"
		if !p.API.StaleSince.IsZero() {
			line += " for " + age(p.Now.Sub(p.API.StaleSince))
		}
		lines = append(lines, styled(yellow, withDetail(line+"; busy and idle are as last seen", p.API.Detail)))
	case "unauthorized":
		lines = append(lines, styled(red, withDetail("Devin Cloud refuses the token", p.API.Detail)))
	case "off":
		lines = append(lines, withDetail("no session view: nobody knows which worker is busy", p.API.Detail))
	}
	if p.Token.State == "rejected" {
		lines = append(lines, styled(red, withDetail("the token from "+clean(p.Token.Source)+" is rejected", p.Token.Detail)))
	}
	for _, note := range p.Notes {
		lines = append(lines, "note: "+clean(note))
	}
	return lines
}

func withDetail(line, detail string) string {
	if detail == "" {
		return line
	}
	return line + " (" + clean(detail) + ")"
}

func workerTable(p control.Pool, wide bool, width int) string {
	head := []string{"NAME", "STATE", "SESSION", "AGE", "RESTARTS", "LAST EXIT", "UPTIME", "CPU", "MEM"}
	if wide {
		head = append(head, "GEN", "SANDBOX", "PID", "ACCEPTOR", "EXPIRES", "WORKSPACE")
	}
	rows := [][]string{head}
	for _, w := range p.Workers {
		row := []string{
			clean(w.Name), stateCell(w), sessionCell(w.Session), sessionAge(w.Session, p.Now),
			restartsCell(w), exitCell(w.LastExit, p.Now), since(w.Started, p.Now), cpuCell(w.CPU), sizeCell(w.Memory),
		}
		if wide {
			row = append(row, fmt.Sprint(w.Generation), orDash(w.Sandbox), pidCell(w.PID), orDash(w.Acceptor), until(w.Expires, p.Now), orDash(w.Workspace))
		}
		rows = append(rows, row)
	}
	return table(rows, width)
}

// stateCell is the state and, beside it, what is wrong with it, in words.
func stateCell(w control.Worker) string {
	text := clean(w.State)
	for _, m := range w.Marks {
		text += "," + clean(m.Name)
	}
	return styled(healthStyle(w.Health), text)
}

func sessionCell(s *control.Session) string {
	switch {
	case s == nil:
		return "-"
	case s.Stale:
		return clean(s.ID) + "?"
	}
	return clean(s.ID)
}

func sessionAge(s *control.Session, now time.Time) string {
	if s == nil {
		return "-"
	}
	return since(s.Since, now)
}

func restartsCell(w control.Worker) string {
	if w.RestartsLately == 0 {
		return fmt.Sprint(w.RestartsTotal)
	}
	return fmt.Sprintf("%d (%d lately)", w.RestartsTotal, w.RestartsLately)
}

// exitCell is the last exit in a few words; the reason in full is in events.
func exitCell(e *control.Exit, now time.Time) string {
	if e == nil {
		return "-"
	}
	what := fmt.Sprintf("code %d", e.Code)
	switch {
	case !e.Known:
		what = "code lost"
	case e.OOM:
		what = "out of memory"
	case e.Signal != 0:
		what = fmt.Sprintf("signal %d", e.Signal)
	}
	return what + ", " + age(now.Sub(e.At)) + " ago"
}

func since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(now.Sub(t))
}

func until(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return "in " + age(t.Sub(now))
}

func cpuCell(cores float64) string {
	if cores < 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", cores)
}

func sizeCell(bytes int64) string {
	if bytes < 0 {
		return "-"
	}
	return humanize.IBytes(uint64(bytes))
}

func pidCell(pid int) string {
	if pid == 0 {
		return "-"
	}
	return fmt.Sprint(pid)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return clean(s)
}

func poolStyle(s control.PoolState) string {
	switch s {
	case control.PoolRunning:
		return green
	case control.PoolHeld:
		return red
	}
	return yellow
}

func healthStyle(h control.Health) string {
	switch h {
	case control.Healthy, control.Unproved:
		return green
	case control.Broken:
		return red
	}
	return yellow
}

// stateStyle colours the state an event leads to.
func stateStyle(state string) string {
	switch state {
	case "idle", "busy":
		return green
	case "held":
		return red
	case "backoff":
		return yellow
	}
	return ""
}
