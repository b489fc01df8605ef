// Package launchtest is a provider that can do no more than execute commands:
// a sandbox is a folder, reached only through real processes, and workers are
// launched by the driver of package launch. It stands in for the vendors that
// need that driver, under whichever shell is asked for.
package launchtest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// Provider keeps its sandboxes below Dir. Two over one folder see the same.
type Provider struct {
	Dir  string // absolute; sandboxes/ and workspaces/ in it
	Path string // where commands in the sandboxes are found, sh among them

	mu sync.Mutex
}

var _ providers.Provider = (*Provider)(nil)

type meta struct {
	Name    string
	Labels  providers.Labels
	Created time.Time
}

func (p *Provider) sandboxDir(name string) string { return filepath.Join(p.Dir, "sandboxes", name) }

func (p *Provider) workspace(l providers.Labels) string {
	return filepath.Join(p.Dir, "workspaces", l.Pool+"-"+l.UID+"-"+strconv.Itoa(l.Slot))
}

// Create makes the folders; the record comes last.
func (p *Provider) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	op := "create " + s.Name
	if err := ctx.Err(); err != nil {
		return nil, providers.Errorf(providers.Transient, op, "%w", err)
	}
	if !launch.ValidID(s.Name) || strings.HasPrefix(s.Name, ".") {
		return nil, providers.Errorf(providers.Invalid, op, "a name is letters, digits and dashes")
	}
	if m, err := p.read(s.Name); err == nil {
		return p.sandbox(m, s.Epoch), nil
	}
	m := meta{s.Name, s.Labels, time.Now()}
	if s.Fresh {
		if err := os.RemoveAll(p.workspace(s.Labels)); err != nil {
			return nil, fileError(op, err)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fileError(op, err)
	}
	record := filepath.Join(p.sandboxDir(s.Name), "meta.json")
	err = errors.Join(os.MkdirAll(p.workspace(s.Labels), 0o700), os.MkdirAll(p.sandboxDir(s.Name)+"/run", 0o700),
		os.WriteFile(p.workspace(s.Labels)+".json", text, 0o600),
		os.WriteFile(record+".new", text, 0o600), os.Rename(record+".new", record))
	if err != nil {
		return nil, fileError(op, err)
	}
	made := p.sandbox(m, s.Epoch)
	if s.Epoch > 0 {
		if err := made.RaiseEpoch(ctx, s.Epoch); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// Open finds a sandbox by its name, which is its id.
func (p *Provider) Open(ctx context.Context, id string) (providers.Sandbox, error) {
	m, err := p.read(id)
	if err != nil {
		return nil, err
	}
	return p.sandbox(m, 0), nil
}

// List reads the folder.
func (p *Provider) List(ctx context.Context, pool string) ([]providers.Info, error) {
	infos := []providers.Info{}
	used := map[string]bool{}
	records, err := filepath.Glob(filepath.Join(p.Dir, "sandboxes", "*", "meta.json"))
	if err != nil {
		return nil, fileError("list", err)
	}
	for _, record := range records {
		m, err := p.read(filepath.Base(filepath.Dir(record)))
		if err == nil && m.Labels.Pool == pool {
			used[p.workspace(m.Labels)] = true
			infos = append(infos, p.info(m))
		}
	}
	owners, err := filepath.Glob(filepath.Join(p.Dir, "workspaces", "*.json"))
	if err != nil {
		return nil, fileError("list", err)
	}
	for _, owner := range owners {
		m, err := readMeta("list", owner)
		if err == nil && m.Labels.Pool == pool && !used[p.workspace(m.Labels)] {
			info := p.info(m)
			info.State = providers.Gone
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// Check finds nothing amiss.
func (p *Provider) Check(context.Context, bool) []providers.Finding {
	return []providers.Finding{{Name: "launchtest", Status: providers.OK, Detail: "a test double"}}
}

func (p *Provider) read(name string) (meta, error) {
	if name != filepath.Base(name) {
		return meta{}, providers.Errorf(providers.NotFound, "open "+name, "no such sandbox")
	}
	return readMeta("open "+name, filepath.Join(p.sandboxDir(name), "meta.json"))
}

func readMeta(op, file string) (m meta, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return meta{}, fileError(op, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return meta{}, providers.Errorf(providers.Unknown, op, "%w", err)
	}
	return m, nil
}

func (p *Provider) info(m meta) providers.Info {
	return providers.Info{
		ID: m.Name, Name: m.Name, Labels: m.Labels, State: providers.Running,
		Incarnation: strconv.FormatInt(m.Created.UnixNano(), 10),
		Workspace:   p.workspace(m.Labels), Home: p.workspace(m.Labels) + "/.home",
		Retained: true, Created: m.Created,
	}
}

func (p *Provider) sandbox(m meta, epoch int64) *Sandbox {
	s := &Sandbox{p: p, meta: m}
	s.Driver = launch.New(s, launch.Options{Path: p.Path, Epoch: epoch, Poll: 20 * time.Millisecond})
	return s
}

func fileError(op string, err error) error {
	class := providers.Transient
	if errors.Is(err, fs.ErrNotExist) {
		class = providers.NotFound
	}
	return providers.Errorf(class, op, "%w", err)
}
