package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/worker/logs"
)

// Exit codes of every command. exec passes on its command's own, whatever it
// is, and says 125 for a failure of its own.
const (
	exitOK          = 0
	exitFailure     = 1   // the pool refused, or something broke
	exitUsage       = 2   // the command line makes no sense
	exitNotRunning  = 3   // no supervisor answers
	exitTimeout     = 4   // --wait gave up; what was asked for goes on
	exitExecFailed  = 125 // exec: no exit code of the command is known
	exitInterrupted = 130 // Ctrl-C
)

// exitError is an error with the exit code it gives.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }
func (e *exitError) ExitCode() int { return e.code }

func failWith(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// usageError is what a command says to a command line it cannot follow.
func usageError(c *cli.Context, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return failWith(exitUsage, "%s; pool %s --help shows how", text, c.Command.Name)
}

// onUsageError gives the words and the code of usageError to what urfave/cli
// finds wrong with flags.
func onUsageError(c *cli.Context, err error, _ bool) error { return usageError(c, "%v", err) }

// exitCodeOf maps an error to its exit code.
func exitCodeOf(err error) int {
	var coded cli.ExitCoder
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK // the reader, as `head`, has seen enough
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.Is(err, control.ErrNotRunning):
		return exitNotRunning
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailure
}

// finish says what went wrong and returns the exit code. main calls it with
// what the app returned; the app's ExitErrHandler must do nothing.
func finish(err error, stderr io.Writer) int {
	code := exitCodeOf(err)
	if err == nil || code == exitOK || code == exitInterrupted || err.Error() == "" {
		return code
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = logs.Clean(line, false)
	}
	fmt.Fprintf(stderr, "pool: %s\n", strings.Join(lines, "\n"))
	return code
}

// quietFlag is the global flag that leaves out what is only nice to know.
func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print results and errors only", EnvVars: []string{"POOL_QUIET"}}
}

// say prints a line that --quiet leaves out.
func say(c *cli.Context, format string, args ...any) {
	if !c.Bool("quiet") {
		fmt.Fprintf(c.App.ErrWriter, format+"\n", args...)
	}
}

// outputFlag is -o; kinds are what it takes beside the default.
func outputFlag(kinds ...string) cli.Flag {
	return &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT`: " + strings.Join(kinds, " or "),
		Action: func(c *cli.Context, got string) error {
			for _, k := range kinds {
				if got == k {
					return nil
				}
			}
			return usageError(c, "-o %s is not possible, only %s", got, strings.Join(kinds, " or "))
		},
	}
}

func wantsJSON(c *cli.Context) bool { return c.String("output") == "json" }

// printJSON writes v for a program, indented for the person who looks.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// isTerminal tells whether x is a file of a terminal.
func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// hasColour tells whether w takes colours (https://no-color.org).
func hasColour(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

// widthOf is the columns of the terminal w, 0 (no limit) elsewhere.
func widthOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil {
			return cols
		}
	}
	return 0
}

// printStyled writes text, without its colours where they do not belong.
func printStyled(w io.Writer, text string) error {
	if !hasColour(w) {
		text = ansi.Strip(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// Colours stand beside a word that says the same, never alone.
const (
	green  = "32"
	yellow = "33"
	red    = "31"
	bold   = "1"
	dim    = "2"
)

func styled(style, text string) string {
	if style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// table aligns cells into columns two blanks apart. A row wider than width
// columns is cut with an ellipsis; a width of 0 cuts nothing.
func table(rows [][]string, width int) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)+2))
			}
		}
		out.WriteString(fit(strings.TrimRight(line.String(), " "), width) + "\n")
	}
	return out.String()
}

func fit(line string, width int) string {
	if width <= 0 {
		return line
	}
	return ansi.Truncate(line, width, "…")
}

// age writes a time span with its two largest units.
func age(d time.Duration) string {
	d = max(d, 0)
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", minutes, int(d.Seconds())%60)
	case days == 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	}
	return fmt.Sprintf("%dd%02dh", days, hours)
}

// clock writes a time of this day short and any other in full.
func clock(t, now time.Time) string {
	if t.Format(time.DateOnly) == now.In(t.Location()).Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
