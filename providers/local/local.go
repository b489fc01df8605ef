package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/outpostpool/pool/providers"
)

// Options say where and how. Only Dir is needed.
type Options struct {
	Dir       string   // the sandboxes/ folder of the pool's state; absolute
	Hide      []string // state and config folders or files that no session may see; absolute
	Binds     []string // files and folders that commands need inside walls, read-only; absolute
	Isolation string   // "auto" (the default), "none" or "bwrap"
	BwrapPath string   // found on PATH when empty
	Path      string   // PATH of commands that bring none; empty: the system's and the user's ~/.local/bin
	Shell     string   // a POSIX shell; /bin/sh when empty
}

// Provider is the provider for this machine. It is safe for concurrent use.
type Provider struct {
	dir   string
	root  *os.Root // of dir, kept so that nobody can swap it under us
	shell string
	path  string
	hide  []string
	binds []string
	boot  string
	uid   int

	isolation Isolation
	walls     []string // bubblewrap's arguments but for the sandbox's own; nil without walls
	ctty      []string // what takes a terminal inside walls; nil: it is given from outside

	groups  *groups
	watches watches
	table   tableCache
	walking chan struct{} // one disk walk at a time

	mu       sync.Mutex
	open     map[string]*Sandbox // by name, so that descriptors and memory are shared
	children map[int]bool        // keepers and script calls to be reaped
}

// New prepares Dir and chooses the isolation, for which "auto" and "bwrap"
// run bubblewrap once. Errors are Invalid: an option that cannot be, or walls
// that were asked for and cannot be built.
func New(o Options) (*Provider, error) {
	const op = "local provider"
	if !filepath.IsAbs(o.Dir) {
		return nil, providers.Errorf(providers.Invalid, op, "the sandboxes folder %q is not an absolute path", o.Dir)
	}
	for _, path := range append(append([]string{}, o.Hide...), o.Binds...) {
		if !filepath.IsAbs(path) {
			return nil, providers.Errorf(providers.Invalid, op, "%q is not an absolute path", path)
		}
	}
	dir, err := prepareDir(o.Dir)
	if err != nil {
		return nil, providers.Errorf(providers.Invalid, op, "%w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, providers.Errorf(providers.Invalid, op, "%w", err)
	}
	p := &Provider{
		dir: dir, root: root, shell: o.Shell, path: o.Path, uid: os.Getuid(), boot: bootID(),
		hide: append([]string{dir}, o.Hide...), binds: o.Binds,
		walking: make(chan struct{}, 1), open: map[string]*Sandbox{}, children: map[int]bool{},
	}
	if p.shell == "" {
		p.shell = "/bin/sh"
	}
	p.groups = findGroups(p.shell)
	home, _ := os.UserHomeDir()
	if p.path == "" {
		p.path = defaultPath(home)
	}
	if err := p.chooseIsolation(o.Isolation, o.BwrapPath, home); err != nil {
		root.Close()
		return nil, err
	}
	closeOnExec()
	p.sweepTrash()
	return p, nil
}

// prepareDir makes dir with its workspaces and resolves links on the way to
// it, which are the operator's own.
func prepareDir(dir string) (string, error) {
	if err := os.MkdirAll(filepath.Join(dir, workspacesDir), 0o700); err != nil {
		return "", fmt.Errorf("cannot make the sandboxes folder: %w", err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	for _, each := range []string{dir, filepath.Join(dir, workspacesDir)} {
		if err := os.Chmod(each, 0o700); err != nil {
			return "", fmt.Errorf("cannot make %s private: %w", each, err)
		}
	}
	return dir, nil
}

// defaultPath is the system's PATH with the user's own folder at its end, where
// devin's installer puts it (facts outposts.md 1.6).
func defaultPath(home string) string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if home != "" {
		path += ":" + filepath.Join(home, ".local/bin")
	}
	return path
}

// Open returns the sandbox with this id: its name, or "workspace:<slot key>"
// for a retained workspace.
func (p *Provider) Open(ctx context.Context, id string) (providers.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if key, ok := strings.CutPrefix(id, workspaceID); ok {
		return p.openRetained(key)
	}
	return p.openSandbox(ctx, id)
}

// openSandbox returns the one Sandbox value of a name. NotFound comes only
// when nothing of the sandbox is left: somebody may have deleted its folder
// and left its worker, and the next one must not live beside that.
func (p *Provider) openSandbox(ctx context.Context, name string) (*Sandbox, error) {
	op := "open " + name
	if !validName(name) {
		return nil, providers.Errorf(providers.NotFound, op, "no sandbox has such a name")
	}
	s, err := p.recorded(op, name)
	if providers.Is(err, providers.NotFound) {
		if err := p.clearGone(ctx, op, name); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// recorded is the one Sandbox value of a name that has a record.
func (p *Provider) recorded(op, name string) (*Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := readMeta(p.root, name)
	if err != nil {
		return nil, err
	}
	if s := p.open[name]; s != nil && s.meta.incarnation() == m.incarnation() {
		return s, nil
	}
	dir, err := openDir(p.root, name)
	if err != nil {
		return nil, fileError(op, err)
	}
	run, err := openDir(dir, runDir)
	if err != nil {
		dir.Close()
		return nil, fileError(op, err)
	}
	s := &Sandbox{p: p, meta: m, dir: dir, run: run}
	p.open[name] = s
	return s, nil
}

// found returns the sandboxes that exist, by the names of their folders.
func (p *Provider) found() ([]meta, error) {
	names, err := readNames(p.root, ".")
	if err != nil {
		return nil, fileError("list sandboxes", err)
	}
	var all []meta
	for _, name := range names {
		if !validName(name) {
			continue
		}
		m, err := readMeta(p.root, name)
		if providers.Is(err, providers.NotFound) {
			continue // being made or half removed: it does not exist
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// lookPath finds an executable for bubblewrap and the checks.
func lookPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
