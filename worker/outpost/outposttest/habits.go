package outposttest

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// habits are the abilities of facts outposts.md 2.8, by environment variable.
// Whoever misspells one gets an error: a habit that is silently off would make
// a test that tests nothing.
type habits struct {
	crash      bool          // POOLTEST_CRASH=1: print a line and exit 1 at once
	hang       bool          // POOLTEST_HANG=1: live, and do nothing at all
	exit       int           // POOLTEST_EXIT=3: exit with this code after exitAfter
	exitAfter  time.Duration // POOLTEST_EXIT_AFTER=2s
	exits      bool
	ignoreTerm bool          // POOLTEST_IGNORE_TERM=1: TERM and INT do nothing
	stopTakes  time.Duration // POOLTEST_STOP_TAKES=5s: so long from TERM to the end
	release    bool          // POOLTEST_RELEASE=1: give the claim back at TERM
	fork       time.Duration // POOLTEST_FORK=30s: leave a child of its own session behind for so long
	onlyPool   bool          // POOLTEST_ONLY_POOL=1: a CLI of June 2026, which knows no --outpost
	poll       time.Duration // POOLTEST_POLL=100ms: instead of --poll-interval-secs
	printToken bool          // POOLTEST_PRINT_TOKEN=1: leak it, whole and in two writes
	lines      int           // POOLTEST_PRINT=10: lines a second
	flood      int           // POOLTEST_FLOOD=50000000: bytes a second, in lines
	endless    bool          // POOLTEST_ENDLESS=1: one line that never ends
	binary     bool          // POOLTEST_BINARY=1: every byte value, over and over
	escapes    bool          // POOLTEST_ESCAPES=1: sequences that would wreck a terminal
	wide       bool          // POOLTEST_WIDE=1: wide, combining and broken characters
}

const habitPrefix = "POOLTEST_"

func readHabits(env environment) (h habits, err error) {
	known := map[string]func(string) error{
		"CRASH":       boolInto(&h.crash),
		"HANG":        boolInto(&h.hang),
		"EXIT":        func(v string) (err error) { h.exits = true; h.exit, err = strconv.Atoi(v); return err },
		"EXIT_AFTER":  durationInto(&h.exitAfter),
		"IGNORE_TERM": boolInto(&h.ignoreTerm),
		"STOP_TAKES":  durationInto(&h.stopTakes),
		"RELEASE":     boolInto(&h.release),
		"FORK":        durationInto(&h.fork),
		"ONLY_POOL":   boolInto(&h.onlyPool),
		"POLL":        durationInto(&h.poll),
		"PRINT_TOKEN": boolInto(&h.printToken),
		"PRINT":       intInto(&h.lines),
		"FLOOD":       intInto(&h.flood),
		"ENDLESS":     boolInto(&h.endless),
		"BINARY":      boolInto(&h.binary),
		"ESCAPES":     boolInto(&h.escapes),
		"WIDE":        boolInto(&h.wide),
	}
	for name, value := range env {
		habit, is := strings.CutPrefix(name, habitPrefix)
		if !is || value == "" {
			continue
		}
		set := known[habit]
		if set == nil {
			return h, fmt.Errorf("%s: no such habit", name)
		}
		if err := set(value); err != nil {
			return h, fmt.Errorf("%s=%s: %w", name, value, err)
		}
	}
	return h, nil
}

func boolInto(to *bool) func(string) error {
	return func(v string) (err error) { *to, err = strconv.ParseBool(v); return err }
}

func intInto(to *int) func(string) error {
	return func(v string) (err error) { *to, err = strconv.Atoi(v); return err }
}

func durationInto(to *time.Duration) func(string) error {
	return func(v string) (err error) { *to, err = time.ParseDuration(v); return err }
}

// environment is what a process was given, by name.
type environment map[string]string

func readEnvironment(env []string) environment {
	e := environment{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		e[name] = value
	}
	return e
}

// leaveChild starts a child that outlives the worker in a session of its own,
// with the worker's output still open: what a browser or a dev server does.
func (l *life) leaveChild() error {
	child := exec.Command("sleep", strconv.FormatFloat(l.habits.fork.Seconds(), 'f', 3, 64))
	child.Env, child.Dir = l.worker.Env, l.worker.Dir
	child.Stdout, child.Stderr = l.worker.Stdout, l.worker.Stderr
	child.SysProcAttr = ownSession()
	if err := child.Start(); err != nil {
		return err
	}
	l.print("left child %d behind", child.Process.Pid)
	return child.Process.Release()
}
