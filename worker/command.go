package worker

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Fields are what a command's placeholders stand for.
type Fields struct {
	Worker   string // {worker}: "web-0"
	Slot     string // {slot}: "0"
	Pool     string // {pool}
	Outpost  string // {outpost}
	Acceptor string // {acceptor}
}

// Flags are what the CLI calls things (facts outposts.md 1.3).
type Flags struct {
	Outpost string // "--outpost" or "--pool"
}

const (
	outpostFlag = "--outpost"
	poolFlag    = "--pool"
)

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// Command fills a command's placeholders and gives the outpost's flag the name
// that the CLI in the sandbox knows. An unknown placeholder is an error.
func Command(template []string, f Fields, flags Flags) ([]string, error) {
	if len(template) == 0 {
		return nil, errors.New("the worker's command is empty; set worker.command")
	}
	values := map[string]string{
		"{worker}": f.Worker, "{slot}": f.Slot, "{pool}": f.Pool, "{outpost}": f.Outpost, "{acceptor}": f.Acceptor,
	}
	var unknown []string
	args := make([]string, len(template))
	for i, arg := range template {
		args[i] = placeholder.ReplaceAllStringFunc(renamed(arg, flags), func(word string) string {
			value, known := values[word]
			if !known {
				unknown = append(unknown, word)
			}
			return value
		})
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("worker.command has unknown placeholders %s; known are {worker} {slot} {pool} {outpost} {acceptor}",
			strings.Join(unknown, " "))
	}
	return args, nil
}

func renamed(arg string, flags Flags) string {
	if flags.Outpost == "" {
		return arg
	}
	if arg == outpostFlag {
		return flags.Outpost
	}
	if value, ok := strings.CutPrefix(arg, outpostFlag+"="); ok {
		return flags.Outpost + "=" + value
	}
	return arg
}

// helpCommand is the command up to and including the word start, asked for
// help; nil for a command that is not the CLI's.
func helpCommand(command []string) []string {
	i := slices.Index(command, "start")
	if i < 1 {
		return nil
	}
	return append(slices.Clone(command[:i+1]), "--help")
}

// flagIn finds the outpost's flag in a help text.
func flagIn(help string) (Flags, bool) {
	for _, name := range []string{outpostFlag, poolFlag} {
		if regexp.MustCompile(regexp.QuoteMeta(name) + `([^a-zA-Z0-9-]|$)`).MatchString(help) {
			return Flags{Outpost: name}, true
		}
	}
	return Flags{}, false
}
