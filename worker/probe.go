package worker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outpostpool/pool/providers"
)

const probeLimit = 30 * time.Second

// ProbeFlag asks the CLI in a sandbox once what it calls the outpost's flag.
// env is that of exec. A command that is not the CLI's, or a help text that
// names neither flag, gets today's name. The error is Invalid when the command
// is not there.
func ProbeFlag(ctx context.Context, sandbox providers.Sandbox, command []string, env map[string]string) (Flags, error) {
	help := helpCommand(command)
	if help == nil {
		return Flags{Outpost: outpostFlag}, nil
	}
	text, _, err := ask(ctx, sandbox, help, env)
	if err != nil {
		return Flags{}, err
	}
	if flags, ok := flagIn(text); ok {
		return flags, nil
	}
	return Flags{Outpost: outpostFlag}, nil
}

// Version asks the command's program for its version line, such as
// "devin 3000.6.7 (260a97c8)" (facts outposts.md 1.3).
func Version(ctx context.Context, sandbox providers.Sandbox, command []string, env map[string]string) (string, error) {
	if len(command) == 0 {
		return "", providers.Errorf(providers.Invalid, "ask for the version", "the worker's command is empty")
	}
	text, exit, err := ask(ctx, sandbox, []string{command[0], "--version"}, env)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if exit.Code != 0 {
		return "", providers.Errorf(providers.Invalid, "ask "+command[0]+" for its version", "exit code %d: %s", exit.Code, line)
	}
	return line, nil
}

// ask runs a short command and returns both its outputs together.
func ask(ctx context.Context, sandbox providers.Sandbox, args []string, env map[string]string) (string, providers.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var out tailBuffer
	out.limit = 64 << 10
	exit, err := sandbox.Exec(ctx, providers.Cmd{Args: args, Env: env, Stdout: &out, Stderr: &out})
	missing := err == nil && (exit.Code == 126 || exit.Code == 127) ||
		providers.Is(err, providers.Invalid) || providers.Is(err, providers.NotFound)
	if missing {
		return "", exit, whyMissing(ctx, sandbox, args[0], env, err)
	}
	return out.String(), exit, err
}

// danglingScript looks for a link of this name that leads nowhere. A shell's
// own search passes over such links.
const danglingScript = `case $1 in */*) set -- "${1##*/}" "${1%/*}" ;; *) set -- "$1" "$PATH:$HOME/.local/bin" ;; esac
IFS=:
for dir in $2; do
	if [ -L "$dir/$1" ] && [ ! -e "$dir/$1" ]; then printf '%s\n' "$dir/$1"; exit; fi
done`

// whyMissing tells a CLI that is not installed from one whose update left a
// link that leads nowhere (facts outposts.md 1.6).
func whyMissing(ctx context.Context, sandbox providers.Sandbox, program string, env map[string]string, cause error) error {
	if providers.Is(cause, providers.NotFound) {
		if _, err := sandbox.Info(ctx); providers.Is(err, providers.NotFound) {
			return cause // it is the sandbox that is not there
		}
	}
	var out tailBuffer
	out.limit = 4 << 10
	_, err := sandbox.Exec(ctx, providers.Cmd{
		Args: []string{"sh", "-c", danglingScript, "pool-probe", program}, Env: env, Stdout: &out,
	})
	failed := &providers.Error{Class: providers.Invalid, Op: "run " + program}
	if link := strings.TrimSpace(out.String()); err == nil && link != "" {
		failed.Err = fmt.Errorf("%s leads nowhere, as after an update that broke off", link)
		failed.Hint = "run `devin update`, or the installer again"
		return failed
	}
	failed.Err = fmt.Errorf("not found, or not executable, in the sandbox (PATH=%s)", env["PATH"])
	failed.Hint = "install it there, or set worker.command to its absolute path"
	return failed
}
