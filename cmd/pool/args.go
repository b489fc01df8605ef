package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// reorder puts the flags of a command before its arguments, because
// urfave/cli reads none after the first argument, while people write
// `pool logs web-0 -f`. "--" ends the flags. What follows the WORKER of exec
// belongs to the command that is executed: only flags directly behind it, as
// in `pool exec web-0 -it -- sh`, are exec's, as no command begins with a dash.
func reorder(args []string, app *cli.App) []string {
	if len(args) < 2 || args[len(args)-1] == "--generate-bash-completion" {
		return args
	}
	head, rest := args[:1:1], args[1:]
	global, rest := leadingFlags(rest, app.Flags)
	head = append(head, global...)
	command, commands := (*cli.Command)(nil), app.Commands
	for len(rest) > 0 {
		next := named(commands, rest[0])
		if next == nil {
			break
		}
		command, commands = next, next.Subcommands
		head, rest = append(head, rest[0]), rest[1:]
	}
	if command == nil || len(command.Subcommands) > 0 || command.SkipFlagParsing {
		return args
	}
	flags, operands := split(rest, command)
	if len(operands) == 0 {
		return append(head, flags...)
	}
	return append(append(append(head, flags...), "--"), operands...)
}

func named(commands []*cli.Command, name string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// split sorts the words behind a command into its flags and its operands.
func split(words []string, command *cli.Command) (flags, operands []string) {
	isExec := command.Name == "exec"
	for len(words) > 0 {
		var taken []string
		taken, words = leadingFlags(words, command.Flags)
		flags = append(flags, taken...)
		switch {
		case len(words) == 0:
			return flags, operands
		case words[0] == "--":
			return flags, append(operands, words[1:]...)
		case isExec && len(operands) == 1:
			return flags, append(operands, words...)
		}
		operands, words = append(operands, words[0]), words[1:]
	}
	return flags, operands
}

// leadingFlags takes the flags, with their values, off the front of words.
func leadingFlags(words []string, known []cli.Flag) (flags, rest []string) {
	for len(words) > 0 {
		w := words[0]
		if len(w) < 2 || w[0] != '-' || w == "--" {
			break
		}
		n := 1
		if !strings.Contains(w, "=") && wantsValue(w, known) {
			n = min(2, len(words))
		}
		flags, words = append(flags, words[:n]...), words[n:]
	}
	return flags, words
}

// wantsValue tells whether the flag written as word takes the next word. Of
// short flags in one word, as -ite, only the last can.
func wantsValue(word string, known []cli.Flag) bool {
	name := strings.TrimLeft(word, "-")
	if f := flagNamed(name, known); f != nil {
		return takesValue(f)
	}
	if strings.HasPrefix(word, "--") {
		return false
	}
	f := flagNamed(name[len(name)-1:], known)
	return f != nil && takesValue(f)
}

func flagNamed(name string, known []cli.Flag) cli.Flag {
	for _, f := range known {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}
