package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Remove kills what is left of the sandbox's processes and removes it. Without
// keepWorkspace the workspace goes first; see the package's word on crashes.
func (s *Sandbox) Remove(ctx context.Context, keepWorkspace bool) error {
	op := "remove " + s.meta.Name
	unlock, err := s.lock(ctx, op)
	if err != nil {
		return err
	}
	defer unlock()
	s.launching.Lock()
	defer s.launching.Unlock()
	if gone, err := s.gone(); err != nil {
		return err
	} else if gone {
		return s.p.clearGone(ctx, op, s.meta.Name)
	}
	if left := s.killAll(ctx); left != "" {
		if err := ctx.Err(); err != nil {
			return err
		}
		return &providers.Error{Class: providers.Transient, Op: op, Err: errors.New(left), Hint: "end them by hand if they stay"}
	}
	// An Exec may have outlived the supervisor that ran it.
	if err := (remains{p: s.p, name: s.meta.Name, s: s}).end(ctx, op, func() bool { return true }); err != nil {
		return err
	}
	s.p.groups.remove(s.group())
	if !keepWorkspace {
		if err := s.p.discardWorkspace(slotKey(s.meta.Labels)); err != nil {
			return fileError(op, err)
		}
	}
	if err := s.p.discard(s.meta.Name); err != nil {
		return fileError(op, err)
	}
	s.close()
	return nil
}

// gone reports whether this sandbox, not one that has its name now, is gone.
func (s *Sandbox) gone() (bool, error) {
	m, err := readMeta(s.p.root, s.meta.Name)
	if providers.Is(err, providers.NotFound) {
		return true, nil
	}
	return err == nil && m.incarnation() != s.meta.incarnation(), err
}

func (s *Sandbox) close() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.open[s.meta.Name] == s {
		delete(s.p.open, s.meta.Name)
	}
	// The descriptors stay for a reader that is still in the output; the
	// runtime closes them with the last reference.
}

func (p *Provider) discardWorkspace(key string) error {
	if err := p.discard(workspacesDir + "/" + key); err != nil {
		return err
	}
	for _, suffix := range []string{".json", lockSuffix} {
		err := p.root.Remove(workspacesDir + "/" + key + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// discard makes a folder vanish in one step, then deletes it. Not being there
// is fine.
func (p *Provider) discard(name string) error {
	trash := trashPrefix + rand.Text()
	err := p.root.Rename(name, trash)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return removeTree(p.root, trash)
}

// sweepTrash deletes what a crash left half deleted.
func (p *Provider) sweepTrash() {
	names, _ := readNames(p.root, ".")
	for _, name := range names {
		if strings.HasPrefix(name, trashPrefix) || strings.HasPrefix(name, trialPrefix) && p.abandoned(name) {
			removeTree(p.root, name)
		}
	}
}

// abandoned tells a trial that a crash left from one that another program, such
// as doctor, makes right now.
func (p *Provider) abandoned(name string) bool {
	info, err := p.root.Lstat(name)
	return err == nil && time.Since(info.ModTime()) > 2*wallsProbeTime
}

// removeTree deletes a folder, also one with read-only folders in it, as Go's
// module cache has. Processes that still write are given a few rounds.
func removeTree(root *os.Root, name string) error {
	var err error
	for range 5 {
		if err = root.RemoveAll(name); err == nil {
			return nil
		}
		makeWritable(root, name)
		time.Sleep(time.Millisecond)
	}
	return err
}

// makeWritable opens the folders of a tree to us, following no link.
func makeWritable(root *os.Root, name string) {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return
	}
	if root.Chmod(name, 0o700) != nil {
		return
	}
	dir, err := openDir(root, name)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := readNames(dir, ".")
	for _, each := range names {
		makeWritable(dir, each)
	}
}

// retained is a workspace without a sandbox.
type retained struct {
	p     *Provider
	key   string
	owner owner
}

func (p *Provider) openRetained(key string) (*retained, error) {
	op := "open " + workspaceID + key
	if !validWord(key, maxName) {
		return nil, providers.Errorf(providers.NotFound, op, "no workspace has such a name")
	}
	info, err := p.root.Lstat(workspacesDir + "/" + key)
	if err != nil {
		return nil, fileError(op, err)
	}
	r := &retained{p: p, key: key}
	if err := readJSON(p.root, workspacesDir+"/"+key+".json", &r.owner); err != nil {
		return nil, fileError(op, err)
	}
	if !info.IsDir() || slotKey(r.owner.Labels) != key {
		return nil, providers.Errorf(providers.NotFound, op, "it is not one of ours")
	}
	if r.held() {
		return nil, providers.Errorf(providers.NotFound, op, "the workspace belongs to %s", r.owner.Sandbox)
	}
	return r, nil
}

// held reports whether a sandbox has the workspace.
func (r *retained) held() bool {
	if !validName(r.owner.Sandbox) {
		return false
	}
	m, err := readMeta(r.p.root, r.owner.Sandbox)
	return err == nil && slotKey(m.Labels) == r.key
}

func (r *retained) info() providers.Info {
	return providers.Info{
		ID: workspaceID + r.key, Name: r.key, Labels: r.owner.Labels, State: providers.Gone,
		HostWorkspace: r.p.hostWorkspace(r.owner.Labels), Retained: true, Created: r.owner.Created,
		Reason: "the workspace is kept; its last sandbox was " + r.owner.Sandbox,
	}
}

func (r *retained) Info(ctx context.Context) (providers.Info, error) {
	if err := ctx.Err(); err != nil {
		return providers.Info{}, err
	}
	now, err := r.p.openRetained(r.key)
	if err != nil {
		return providers.Info{}, err
	}
	return now.info(), nil
}

func (r *retained) none(op string) error {
	return providers.Errorf(providers.NotFound, op+" in "+workspaceID+r.key, "it is a workspace without a sandbox")
}

func (r *retained) Exec(context.Context, providers.Cmd) (providers.Exit, error) {
	return providers.Exit{}, r.none("run a command")
}

func (r *retained) Launch(context.Context, string, providers.Cmd) (providers.Process, error) {
	return nil, r.none("launch")
}

func (r *retained) Process(context.Context) (providers.Process, error) {
	return nil, r.none("find a process")
}

// Remove discards the workspace, unless it is to be kept or has a sandbox
// again.
func (r *retained) Remove(ctx context.Context, keepWorkspace bool) error {
	op := "remove " + workspaceID + r.key
	unlock, err := r.p.lockSlot(ctx, op, r.key)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = r.p.openRetained(r.key)
	if keepWorkspace || providers.Is(err, providers.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if validName(r.owner.Sandbox) {
		if err := r.p.clearGone(ctx, op, r.owner.Sandbox); err != nil {
			return err
		}
	}
	return fileError(op, r.p.discardWorkspace(r.key))
}
