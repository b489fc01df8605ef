package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
)

// diskLow is the free space below which Check warns: a few repositories with
// their builds need more.
const diskLow = 2 << 30

// Check looks at the walls, the tools, limits and disk space. With probe it
// also makes a sandbox, runs a command and a worker in it, and removes it.
func (p *Provider) Check(ctx context.Context, probe bool) []providers.Finding {
	findings := []providers.Finding{p.checkWalls(), p.checkTools(), p.checkGit(), p.checkGroups(), p.checkDisk()}
	if probe {
		findings = append(findings, p.checkSandbox(ctx))
	}
	return findings
}

func (p *Provider) checkWalls() providers.Finding {
	f := providers.Finding{Name: "isolation", Status: providers.OK, Detail: p.isolation.Reason}
	if p.walls == nil {
		f.Status = providers.Warn
		f.Hint = "code in a session can read this user's files and the other workers' tokens; install bubblewrap, or run pool as a user of its own on a machine of its own"
	}
	return f
}

func (p *Provider) checkTools() providers.Finding {
	f := providers.Finding{Name: "shell", Status: providers.OK, Detail: p.shell + " and setsid are here"}
	if info, err := os.Stat(p.shell); err != nil || info.Mode()&0o111 == 0 {
		f.Status, f.Detail, f.Hint = providers.Fail, p.shell+" cannot be run", "install a POSIX shell"
	} else if p.inPath("setsid") == "" {
		f.Status, f.Detail = providers.Warn, "setsid is missing: a worker shares its keeper's session"
		f.Hint = "install util-linux, so that signals reach a worker's whole session"
	}
	return f
}

func (p *Provider) checkGit() providers.Finding {
	if git := p.inPath("git"); git != "" {
		return providers.Finding{Name: "git", Status: providers.OK, Detail: git}
	}
	return providers.Finding{Name: "git", Status: providers.Fail, Detail: "git is not on the workers' PATH, and every repository needs it", Hint: "install git"}
}

// inPath finds a program on the PATH that workers get.
func (p *Provider) inPath(name string) string {
	for dir := range strings.SplitSeq(p.path, ":") {
		path := dir + "/" + name
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func (p *Provider) checkGroups() providers.Finding {
	f := providers.Finding{Name: "cgroup", Status: providers.OK}
	if p.groups.version == 0 {
		f.Detail = "no cgroups here: cpu and memory cannot be limited; use is read from the process table"
		return f
	}
	var can, cannot []string
	for _, limit := range []struct {
		name string
		try  providers.Resources
	}{{"cpu", providers.Resources{CPU: 1}}, {"memory", providers.Resources{Memory: 64 << 20}}} {
		if err := p.groups.trial(limit.try); err != nil {
			cannot = append(cannot, fmt.Sprintf("%s cannot be limited (%v)", limit.name, err))
		} else {
			can = append(can, limit.name+" can be limited")
		}
	}
	f.Detail = fmt.Sprintf("version %d: %s", p.groups.version, strings.Join(append(can, cannot...), ", "))
	if len(cannot) > 0 {
		f.Hint = "this matters only for limits in [sandbox]: run pool as root, or in a systemd unit with Delegate=yes and DelegateSubgroup=supervisor"
	}
	return f
}

func (p *Provider) checkDisk() providers.Finding {
	var stat unix.Statfs_t
	if err := unix.Statfs(p.dir, &stat); err != nil {
		return providers.Finding{Name: "disk", Status: providers.Warn, Detail: fmt.Sprintf("the free space of %s is not known: %v", p.dir, err)}
	}
	free := uint64(stat.Bavail) * uint64(stat.Bsize)
	f := providers.Finding{Name: "disk", Status: providers.OK, Detail: fmt.Sprintf("%s free in %s", humanize.IBytes(free), p.dir)}
	if free < diskLow {
		f.Status, f.Hint = providers.Warn, "make room, or set pool.state_dir to a larger disk"
	}
	return f
}

// checkSandbox goes through a sandbox's life.
func (p *Provider) checkSandbox(ctx context.Context) providers.Finding {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	if err := p.trialLife(ctx); err != nil {
		return providers.Finding{Name: "sandbox", Status: providers.Fail, Detail: err.Error(), Hint: "what is said above may be the cause"}
	}
	return providers.Finding{Name: "sandbox", Status: providers.OK,
		Detail: fmt.Sprintf("made one, ran a command and a worker, removed it, in %s", time.Since(began).Round(time.Millisecond))}
}

func (p *Provider) trialLife(ctx context.Context) (err error) {
	labels := providers.Labels{Pool: "doctor", UID: fmt.Sprintf("%08x", uint32(time.Now().UnixNano())), Generation: 1}
	sandbox, err := p.Create(ctx, providers.Spec{Name: slotKey(labels) + "-g1", Labels: labels})
	if err != nil {
		return err
	}
	defer func() {
		// Also when ctx is over: nothing of a trial stays.
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if removed := sandbox.Remove(rest, false); err == nil {
			err = removed
		}
	}()
	exit, err := sandbox.Exec(ctx, providers.Cmd{Args: []string{"sh", "-c", "exit 7"}})
	if err != nil {
		return err
	}
	if exit.Code != 7 {
		return fmt.Errorf("a command that ends with 7 ended with %d", exit.Code)
	}
	worker, err := sandbox.Launch(ctx, "doctor", providers.Cmd{Args: []string{"sh", "-c", "exit 7"}})
	if err != nil {
		return err
	}
	if exit, err = worker.Wait(ctx); err == nil && exit.Code != 7 {
		err = fmt.Errorf("a worker that ends with 7 ended with %d", exit.Code)
	}
	return err
}
