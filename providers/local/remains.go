package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// remains is what is looked for of a sandbox beyond its last launch: what an
// earlier supervisor's Exec left, and all of it once its folder is gone.
type remains struct {
	p    *Provider
	name string
	s    *Sandbox // what this program remembers of it; nil: nothing
}

// execMark is the marker of one Exec. It names the sandbox, so that the next
// supervisor can end what outlived this one, and the folder of all sandboxes,
// so that a sandbox of that name elsewhere on this machine is never meant.
func (p *Provider) execMark(name string) string { return p.execMarks(name) + rand.Text() }

func (p *Provider) execMarks(name string) string {
	sum := sha256.Sum256([]byte(p.dir))
	return fmt.Sprintf("%s.exec.%x.", name, sum[:8])
}

// marks reports whether a marker is of this sandbox: an exec's, that of the
// launch we remember, or one of the supervisor's, which are the sandbox's name
// with a counter. Only the last dash separates the counter, so that "a-1" is
// not taken for the launches of "a-1-g1", nor g1 for g11.
func (r remains) marks(marker string) bool {
	if marker == "" {
		return false
	}
	if strings.HasPrefix(marker, r.p.execMarks(r.name)) {
		return true
	}
	if l := r.remembered(); l != nil && l.LaunchID == marker {
		return true
	}
	dash := strings.LastIndexByte(marker, '-')
	return dash > 0 && dash < len(marker)-1 && marker[:dash] == r.name
}

// remembered is what this program knows of the last launch without its files.
func (r remains) remembered() *launched {
	if r.s == nil {
		return nil
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.last
}

// find returns all that lives of the sandbox, keepers included. It reads the
// environment of our user's processes only.
func (r remains) find(t table) []proc {
	var found roots
	var keepers []proc
	if l := r.remembered(); l != nil {
		found = r.s.roots(t, l)
		if t.alive(l.keeper()) && r.s.isKeeper(l) {
			keepers = append(keepers, t[l.Keeper.PID])
		}
	}
	for pid, p := range t {
		switch {
		case p.zombie || pid <= 1 || pid == os.Getpid() || !ownedBy(pid, r.p.uid):
		case r.keeps(pid):
			keepers = append(keepers, p)
		case r.marks(markerOf(pid)) && !r.elsewhere(pid):
			found.also = append(found.also, pid)
		}
	}
	for _, group := range r.groups(append(slices.Clone(keepers), members(t, found)...)) {
		found.also = append(found.also, r.p.groups.members(group)...)
	}
	found.also = append(found.also, sameNamespace(t, found)...)
	all := members(t, found)
	for _, keeper := range keepers {
		if !slices.Contains(all, keeper) {
			all = append(all, keeper)
		}
	}
	return all
}

// keeps reports whether a process is a shell with the sandbox's launch script:
// its keeper, or a worker that is just being started.
func (r remains) keeps(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(line, []byte("\x00"+r.p.dir+"/"+r.name+"/"+runDir+"/"+launch.ScriptFile+"\x00"))
}

// elsewhere is Sandbox.elsewhere where the slot may not be known.
func (r remains) elsewhere(pid int) bool {
	if r.s != nil {
		return r.s.elsewhere(pid)
	}
	return elsewhere(pid, r.p.dir+"/"+r.name+"/"+runDir+"/"+launch.LogFile, r.p.dir+"/"+workspacesDir)
}

// groups are the sandbox's cgroups. Their names hold the time of the sandbox's
// making; where that is forgotten, one is ours if something found is in it.
func (r remains) groups(found []proc) []string {
	if r.s != nil {
		return []string{r.s.group()}
	}
	var ours []string
	for _, group := range r.p.groups.named(r.name) {
		members := r.p.groups.members(group)
		if slices.ContainsFunc(found, func(p proc) bool { return slices.Contains(members, p.pid) }) {
			ours = append(ours, group)
		}
	}
	return ours
}

// end kills what find finds for as long as still holds, and returns a
// Transient error while anything of it lives. Whether it still holds is asked
// after each look at the processes: whatever is older than the answer may go.
func (r remains) end(ctx context.Context, op string, still func() bool) error {
	seen := map[string]bool{}
	find := func(t table) []proc {
		all := r.find(t)
		if len(all) == 0 || !still() {
			return nil
		}
		for _, group := range r.groups(all) {
			seen[group] = true
		}
		return all
	}
	left, err := hunt{find: find, uid: r.p.uid, sig: unix.SIGKILL}.run(ctx)
	r.p.reapAll()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return providers.Errorf(providers.Transient, op, "%w", err)
	case len(left) > 0:
		return &providers.Error{Class: providers.Transient, Op: op, Err: errors.New(describe(left)), Hint: "end them by hand if they stay"}
	}
	for group := range seen {
		r.p.groups.remove(group)
	}
	return nil
}

// clearGone ends what is left of a sandbox that has no record any more, since
// NotFound means that surely nothing of it acts. A new sandbox of that name
// gets its record before its first process, so that none of those is reached.
func (p *Provider) clearGone(ctx context.Context, op, name string) error {
	missing := func() bool {
		_, err := readMeta(p.root, name)
		return providers.Is(err, providers.NotFound)
	}
	p.mu.Lock()
	s := p.open[name]
	p.mu.Unlock()
	if err := (remains{p: p, name: name, s: s}).end(ctx, op, missing); err != nil {
		return err
	}
	if s != nil && missing() {
		s.close()
	}
	return nil
}
