package local

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Create makes the sandbox, or returns the one that has the name. While
// another generation of the slot exists it is a Conflict, since both would
// have one workspace. A limit that cannot be set is Invalid.
func (p *Provider) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSpec(s); err != nil {
		return nil, err
	}
	op := "create " + s.Name
	unlock, err := p.lockSlot(ctx, op, slotKey(s.Labels))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if found, err := p.openSandbox(ctx, s.Name); err == nil {
		found.holdEpoch(s.Epoch)
		return found, fileError(op, p.makeWorkspace(found.meta, false))
	} else if !providers.Is(err, providers.NotFound) {
		return nil, err
	}
	if err := p.CheckLimits(s.Resources); err != nil {
		return nil, err
	}
	m := meta{Name: s.Name, Labels: s.Labels, Resources: s.Resources, Created: time.Now().UTC()}
	if err := p.claimWorkspace(ctx, m); err != nil {
		return nil, err
	}
	if err := p.makeWorkspace(m, s.Fresh); err != nil {
		return nil, fileError(op, err)
	}
	if err := p.makeSandbox(m, s.Epoch); err != nil {
		return nil, fileError(op, err)
	}
	made, err := p.openSandbox(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	made.holdEpoch(s.Epoch)
	return made, nil
}

// claimWorkspace refuses while another sandbox has the slot's workspace. The
// owner's record alone is no claim: the sandbox it names must exist. If it does
// not, nothing of it may live on in the workspace either.
func (p *Provider) claimWorkspace(ctx context.Context, m meta) error {
	op := "create " + m.Name
	record := workspacesDir + "/" + slotKey(m.Labels) + ".json"
	var last owner
	err := fileError(op, readJSON(p.root, record, &last))
	switch {
	case providers.Is(err, providers.NotFound), providers.Is(err, providers.Invalid):
		last.Created = m.Created
	case err != nil:
		return err
	case last.Sandbox != m.Name && validName(last.Sandbox):
		if _, err := readMeta(p.root, last.Sandbox); err == nil {
			return &providers.Error{Class: providers.Conflict, Op: op,
				Err:  fmt.Errorf("%s has the slot's workspace", last.Sandbox),
				Hint: "remove that sandbox first"}
		} else if !providers.Is(err, providers.NotFound) {
			return err
		}
		if err := p.clearGone(ctx, op, last.Sandbox); err != nil {
			return err
		}
	}
	return fileError(op, writeJSON(p.root, record, owner{Sandbox: m.Name, Labels: m.Labels, Created: last.Created}))
}

// makeWorkspace makes what is missing of the workspace; fresh discards what a
// former generation left.
func (p *Provider) makeWorkspace(m meta, fresh bool) error {
	key := workspacesDir + "/" + slotKey(m.Labels)
	if fresh {
		if err := p.discard(key); err != nil {
			return err
		}
	}
	if err := makeDir(p.root, key); err != nil {
		return err
	}
	workspace, err := openDir(p.root, key)
	if err != nil {
		return err
	}
	defer workspace.Close()
	for _, name := range []string{reposDir, homeDir} {
		if _, err := workspace.Lstat(name); err == nil {
			continue // the session's own, whatever it made of it
		}
		if err := makeDir(workspace, name); err != nil {
			return err
		}
	}
	return nil
}

// makeSandbox makes the folder; the record comes last, since with it the
// sandbox exists.
func (p *Provider) makeSandbox(m meta, epoch int64) error {
	if err := p.discard(m.Name); err != nil { // what a crash left
		return err
	}
	for _, dir := range []string{m.Name, m.Name + "/" + runDir, m.Name + "/" + cacheDir} {
		if err := makeDir(p.root, dir); err != nil {
			return err
		}
	}
	run, err := openDir(p.root, m.Name+"/"+runDir)
	if err != nil {
		return err
	}
	defer run.Close()
	if err := writeEpoch(run, epoch); err != nil {
		return err
	}
	return writeJSON(p.root, m.Name+"/"+metaFile, m)
}

func makeDir(root *os.Root, name string) error {
	if err := root.Mkdir(name, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}

// List returns the pool's sandboxes, and its workspaces that have none.
func (p *Provider) List(ctx context.Context, pool string) ([]providers.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := p.found()
	if err != nil {
		return nil, err
	}
	infos := []providers.Info{}
	used := map[string]bool{}
	for _, m := range all {
		if m.Labels.Pool == pool {
			used[slotKey(m.Labels)] = true
			infos = append(infos, p.info(m))
		}
	}
	names, err := readNames(p.root, workspacesDir)
	if err != nil {
		return nil, fileError("list workspaces", err)
	}
	for _, name := range names {
		if !validWord(name, maxName) || used[name] {
			continue
		}
		if r, err := p.openRetained(name); err == nil && r.owner.Labels.Pool == pool {
			infos = append(infos, r.info())
		}
	}
	return infos, nil
}

// info is what is known of a sandbox without looking any further.
func (p *Provider) info(m meta) providers.Info {
	workspace := p.hostWorkspace(m.Labels)
	inside, cache := workspace, p.hostCache(m)
	if p.walls != nil {
		inside, cache = wallsWorkspace, wallsCache
	}
	return providers.Info{
		ID: m.Name, Name: m.Name, Labels: m.Labels, State: providers.Running,
		Incarnation: p.boot + "-" + m.incarnation(),
		Workspace:   inside, Home: inside + "/" + homeDir, Cache: cache, HostWorkspace: workspace,
		Retained: true, Created: m.Created,
	}
}

// hostCache is a folder for what is to last as long as the sandbox and to be
// in no snapshot, such as a worker's credentials.
func (p *Provider) hostCache(m meta) string { return p.dir + "/" + m.Name + "/" + cacheDir }

func (p *Provider) hostWorkspace(l providers.Labels) string {
	return p.dir + "/" + workspacesDir + "/" + slotKey(l)
}
