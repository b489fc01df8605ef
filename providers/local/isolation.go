package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Isolation says whether sandboxes have walls, and why.
type Isolation struct {
	Mode   string // "bwrap" or "none"
	Reason string // one line for people
}

// Isolation is what New chose.
func (p *Provider) Isolation() Isolation { return p.isolation }

// wallsProbeTime is how long bubblewrap may take to show that it works; it
// needs milliseconds.
const wallsProbeTime = 10 * time.Second

// chooseIsolation tries bubblewrap by really running it, since what forbids it
// (no user namespaces, a container's seccomp or masked /proc) shows only then.
func (p *Provider) chooseIsolation(want, bwrap, home string) error {
	switch want {
	case "", "auto", "bwrap":
	case "none":
		p.isolation = Isolation{"none", "no walls: asked for by isolation = \"none\"; sessions share this machine and its user's files"}
		return nil
	default:
		return providers.Errorf(providers.Invalid, "local provider", "isolation %q is not one of auto, none, bwrap", want)
	}
	walls, why := p.tryWalls(bwrap, home)
	switch {
	case why == "":
		p.walls = walls
		p.isolation = Isolation{"bwrap", "walls by bubblewrap: each worker sees only its own files and processes; the network is shared"}
	case want == "bwrap":
		return &providers.Error{Class: providers.Invalid, Op: "local provider",
			Err:  fmt.Errorf("isolation = \"bwrap\" is not possible here: %s", why),
			Hint: "install or allow bubblewrap, or set isolation = \"none\""}
	default:
		p.isolation = Isolation{"none", "no walls, as " + why + "; sessions share this machine and its user's files"}
	}
	return nil
}

// tryWalls returns the walls' arguments with bubblewrap's path first, or why
// there can be none.
func (p *Provider) tryWalls(bwrap, home string) (walls []string, why string) {
	if runtime.GOOS != "linux" {
		return nil, "bubblewrap exists on Linux only"
	}
	if bwrap == "" {
		bwrap = lookPath("bwrap")
	}
	if bwrap == "" {
		return nil, "bubblewrap (bwrap) is not installed"
	}
	walls = append([]string{bwrap}, wallArgs(readSystem(p.binds, p.hide, home))...)
	trial, err := os.MkdirTemp(p.dir, trialPrefix)
	if err != nil {
		return nil, err.Error()
	}
	defer os.RemoveAll(trial)
	ctx, cancel := context.WithTimeout(context.Background(), wallsProbeTime)
	defer cancel()
	argv := append(sandboxArgs(walls, trial, trial, false), "/bin/sh", "-c", "echo $$ >"+wallsWorkspace+"/seen")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + p.path}
	out, err := cmd.CombinedOutput()
	if err != nil {
		line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
		return nil, strings.TrimSpace(fmt.Sprintf("bubblewrap does not work here (%v) %s", err, line))
	}
	if _, err := os.Stat(filepath.Join(trial, "seen")); err != nil {
		return nil, "bubblewrap did not run what it was given"
	}
	p.ctty = p.tryTerminal(ctx, walls, trial)
	return walls, ""
}

// tryTerminal returns what makes the first process inside walls lead a session
// there and take the terminal. Given from outside, terminal and foreground
// group belong to numbers that the inside cannot name, and a shell that wants
// to give the terminal back fails at its exit. Never a group leader, setsid
// becomes the command instead of starting it, so its end is told exactly. Not
// every setsid has the option: then nil.
func (p *Provider) tryTerminal(ctx context.Context, walls []string, trial string) []string {
	setsid := p.inPath("setsid")
	if setsid == "" {
		return nil
	}
	takes := []string{setsid, "-c"}
	argv := append(append(sandboxArgs(walls, trial, trial, true), takes...), "/bin/sh", "-c", ": </dev/tty && exit 7")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + p.path}
	streams, err := startOnTerminal(cmd, providers.Cmd{}, true)
	if err != nil {
		return nil
	}
	err = cmd.Wait()
	streams.end(ctx)
	if exit, err := exitOf(cmd, err); err != nil || exit.Code != 7 {
		return nil
	}
	return takes
}
