package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker/outpost"
)

// preflight looks at everything that must be right before a worker starts. Up
// refuses on a Fail; doctor shows all of it.
type preflight struct {
	findings []providers.Finding
	away     string          // why Devin Cloud does not answer; empty when it does
	outpost  outpost.Outpost // by name or id alone while Devin Cloud is away
}

// apiPatience is how long a start waits for Devin Cloud.
const apiPatience = 2 * time.Second

// checkToken reads the token.
func (p *preflight) checkToken(ctx context.Context, s *setup) bool {
	f := providers.Finding{Name: "token", Status: providers.OK, Detail: "from " + s.resolved.Token.Source()}
	if _, err := s.resolved.Token.Read(ctx); err != nil {
		f.Status, f.Detail = providers.Fail, err.Error()
	}
	p.findings = append(p.findings, f)
	return f.Status == providers.OK
}

// checkAPI finds the outpost with the token. A cloud that does not answer is
// no reason not to start.
func (p *preflight) checkAPI(ctx context.Context, s *setup, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := s.resolved.Outpost()
	p.outpost = outpost.Outpost{ID: s.resolved.OutpostID, Name: s.resolved.OutpostName}
	f := providers.Finding{Name: "outpost"}
	found, err := s.fleet.Find(ctx, name)
	switch {
	case err == nil:
		p.outpost = found
		f.Status, f.Detail = providers.OK, fmt.Sprintf("%s (%s), from %s", found.Name, found.ID, s.resolved.OutpostSource)
		defer p.checkPlatform(found)
	case outpost.IsRejected(err), outpost.IsNotFound(err):
		f.Status, f.Detail = providers.Fail, err.Error()
		if api := (*outpost.APIError)(nil); errors.As(err, &api) && api.Status == http.StatusNotFound && api.Hint == "" {
			f.Detail += " (404)" // of the API itself, which an account flag gates (facts outposts.md 2.1)
			f.Hint = fmt.Sprintf("is %s, from %s, the API's address, and are Outposts enabled for this account?", s.resolved.APIURL, s.resolved.APIURLSource)
		}
	default:
		f.Status, f.Detail = providers.Warn, fmt.Sprintf("%s does not answer (%v); the pool starts and shows sessions once it does", s.resolved.APIURL, err)
		if errors.Is(err, context.DeadlineExceeded) {
			f.Detail = fmt.Sprintf("%s does not answer within %s; the pool starts and shows sessions once it does", s.resolved.APIURL, patience)
		}
		f.Hint = "check the network and [network] proxy"
		p.away = f.Detail
	}
	p.findings = append(p.findings, f)
}

// platforms are Devin's words for this machine (facts outposts.md 1.10).
var platforms = map[string]string{"linux": "linux", "darwin": "macos"}

func (p *preflight) checkPlatform(o outpost.Outpost) {
	here := platforms[runtime.GOOS]
	f := providers.Finding{Name: "platform", Status: providers.OK, Detail: here}
	if o.Platform != "" && o.Platform != here {
		f.Status = providers.Fail
		f.Detail = fmt.Sprintf("outpost %s is for %s, this machine is %s", o.Name, o.Platform, here)
		f.Hint = "choose an outpost for " + here + ", or make one: pool outpost create NAME --platform " + here
	}
	p.findings = append(p.findings, f)
}

// checkCLI finds the worker's program where workers will look for it.
func (p *preflight) checkCLI(ctx context.Context, s *setup) {
	p.findings = append(p.findings, findCLI(ctx, s.config.Worker.Command[0], s.path))
}

// findCLI looks a program up in path and asks it for its version.
func findCLI(ctx context.Context, program, path string) providers.Finding {
	f := providers.Finding{Name: "worker"}
	found, dangling := lookUp(program, path)
	switch {
	case found == "" && dangling != "":
		f.Status, f.Detail, f.Hint = providers.Fail, dangling+" is a link that leads nowhere, as after a broken update", "run `devin update`, or install the CLI again"
		return f
	case found == "":
		f.Status, f.Detail = providers.Fail, program+" is not in "+path
		f.Hint = "install the Devin CLI (its installer puts it into ~/.local/bin), or name yours in [worker] command"
		return f
	}
	f.Status, f.Detail = providers.OK, found
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ask := exec.CommandContext(ctx, found, "--version")
	ask.Env = []string{"PATH=" + path, "HOME=" + os.TempDir()}
	ask.WaitDelay = time.Second
	out, err := ask.Output()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || !strings.HasPrefix(line, "devin ") {
		f.Detail += " (it tells no version)"
		return f
	}
	f.Detail += ", " + line
	return f
}

// lookUp finds an executable in path, and a link of its name that leads
// nowhere.
func lookUp(program, path string) (found, dangling string) {
	candidates := []string{program}
	if !strings.Contains(program, "/") {
		candidates = nil
		for dir := range strings.SplitSeq(path, ":") {
			candidates = append(candidates, filepath.Join(dir, program))
		}
	}
	for _, each := range candidates {
		info, err := os.Stat(each)
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return each, ""
		}
		if _, linkErr := os.Lstat(each); linkErr == nil && errors.Is(err, fs.ErrNotExist) {
			dangling = each
		}
	}
	return "", dangling
}

// checkProvider asks the provider, and whether it can set the limits.
func (p *preflight) checkProvider(ctx context.Context, s *setup, probe bool) {
	p.findings = append(p.findings, s.local.Check(ctx, probe)...)
	limits := providers.Resources{CPU: s.config.Sandbox.CPU, Memory: int64(s.config.Sandbox.Memory), Disk: int64(s.config.Sandbox.Disk)}
	if err := s.local.CheckLimits(limits); err != nil {
		p.findings = append(p.findings, providers.Finding{Name: "limits", Status: providers.Fail, Detail: err.Error()})
	}
}

// manyCoordinators is above how many workers the vendor wants to be asked
// first (facts outposts.md 1.8).
const manyCoordinators = 16

func (p *preflight) checkSize(workers int) {
	if workers < manyCoordinators {
		return
	}
	p.findings = append(p.findings, providers.Finding{
		Name: "size", Status: providers.Warn,
		Detail: fmt.Sprintf("%d workers and this pool make more than %d coordinators of one outpost", workers, manyCoordinators),
		Hint:   "talk to your account team first: above that claims contend",
	})
}

// refused returns the failures as one error, or nil.
func (p *preflight) refused() error {
	var failed []string
	for _, f := range p.findings {
		if f.Status == providers.Fail {
			failed = append(failed, withHint(f))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return failWith(exitFailure, "nothing was started: %s", strings.Join(failed, "\n"))
}

// notes are the warnings that stay true, for the pool's display. Whether Devin
// Cloud answers changes, and is shown by itself.
func (p *preflight) notes() []string {
	var notes []string
	for _, f := range p.findings {
		if f.Status == providers.Warn && f.Name != "outpost" {
			notes = append(notes, f.Name+": "+withHint(f))
		}
	}
	return notes
}

func withHint(f providers.Finding) string {
	if f.Hint == "" {
		return f.Detail
	}
	return f.Detail + "; " + f.Hint
}
