package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/outpostpool/pool/providers"
)

// CheckLimits tells whether this machine can hold a sandbox to r, by setting
// the limits on a group made for the purpose. The error is Invalid and names
// each limit that cannot be set, why, and what to do.
func (p *Provider) CheckLimits(r providers.Resources) error {
	var wrong []string
	deny := func(limit, format string, args ...any) {
		wrong = append(wrong, limit+" cannot be set: "+fmt.Sprintf(format, args...))
	}
	if r.CPU < 0 || r.Memory < 0 || r.Disk < 0 {
		return providers.Errorf(providers.Invalid, "check the limits", "a limit is below 0")
	}
	if r.Disk > 0 {
		deny("disk", "a directory on this machine has no limit of its own")
	}
	if r.GPU != "" {
		deny("gpu", "processes on this machine reach its GPUs as they are")
	}
	if r.CPU > 0 {
		if err := p.groups.trial(providers.Resources{CPU: r.CPU}); err != nil {
			deny("cpu", "%v", err)
		}
	}
	if r.Memory > 0 {
		if err := p.groups.trial(providers.Resources{Memory: r.Memory}); err != nil {
			deny("memory", "%v", err)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &providers.Error{Class: providers.Invalid, Op: "limit a local sandbox", Err: errors.New(strings.Join(wrong, "; ")),
		Hint: "remove it from [sandbox], or run pool where cgroups can be written: as root, or in a systemd unit with Delegate=yes and DelegateSubgroup=supervisor"}
}

// trial sets limits on a group of its own and removes it.
func (g *groups) trial(r providers.Resources) error {
	name := "trial-" + rand.Text()
	defer g.remove(name)
	_, err := g.enter(name, r)
	return err
}
