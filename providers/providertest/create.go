package providertest

import (
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/providers"
)

var createCases = []testCase{
	{"create by the same name gives the same sandbox", func(b *bench) {
		first := b.sandbox()
		b.sh(first, "echo kept >mark")
		for _, p := range []providers.Provider{b.world.Provider, b.world.Reopen()} {
			second, err := p.Create(b.ctx, b.spec(0, 1))
			b.must(err, "create again")
			if one, two := b.info(first), b.info(second); one.ID != two.ID || one.Incarnation != two.Incarnation {
				b.Errorf("create again gave %s/%s, want %s/%s", two.ID, two.Incarnation, one.ID, one.Incarnation)
			}
			if got := b.sh(second, "cat mark"); got != "kept\n" {
				b.Errorf("the file in it reads %q", got)
			}
		}
		if infos := b.list(b.world.Provider, "suite"); len(infos) != 1 {
			b.Errorf("%d sandboxes are listed, want 1: %v", len(infos), infos)
		}
	}},
	{"info names the sandbox and its workspace", func(b *bench) {
		info := b.info(b.sandbox())
		want := b.spec(0, 1)
		if info.Name != want.Name || info.ID == "" || info.Incarnation == "" {
			b.Errorf("name %q, id %q, incarnation %q; want name %q and no empty one", info.Name, info.ID, info.Incarnation, want.Name)
		}
		if diff := cmp.Diff(want.Labels, info.Labels); diff != "" {
			b.Errorf("labels (-want +got):\n%s", diff)
		}
		if !path.IsAbs(info.Workspace) || !path.IsAbs(info.Home) || info.Created.IsZero() {
			b.Errorf("workspace %q, home %q, created %v", info.Workspace, info.Home, info.Created)
		}
	}},
	{"open of an unknown id is not found", func(b *bench) {
		b.sandbox()
		_, err := b.world.Provider.Open(b.ctx, "suite-abcd2345-9-g9")
		b.wantClass(err, providers.NotFound, "open")
	}},
	{"eight sandboxes live side by side", func(b *bench) {
		const n = 8
		sandboxes := make([]providers.Sandbox, n)
		for i := range n {
			b.Cleanup(func() {
				if sandboxes[i] != nil {
					_ = sandboxes[i].Remove(b.ctx, false)
				}
			})
		}
		problems := make(chan error, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { problems <- b.wholeLife(i, &sandboxes[i]) })
		}
		all.Wait()
		close(problems)
		for err := range problems {
			if err != nil {
				b.Errorf("%v", err)
			}
		}
		if infos := b.list(b.world.Provider, "suite"); len(infos) != n {
			b.Errorf("%d are listed, want %d", len(infos), n)
		}
	}},
}

// wholeLife creates one sandbox, runs a worker and checks that what it wrote
// and how it ended are its own. It runs beside others, so it returns errors.
func (b *bench) wholeLife(slot int, made *providers.Sandbox) error {
	sandbox, err := b.world.Provider.Create(b.ctx, b.spec(slot, 1))
	if err != nil {
		return fmt.Errorf("create %d: %w", slot, err)
	}
	*made = sandbox
	worker, err := sandbox.Launch(b.ctx, b.id(fmt.Sprintf("L%d", slot)), b.cmd(`echo "$1" >mine; exit "$1"`, fmt.Sprint(slot)))
	if err != nil {
		return fmt.Errorf("launch %d: %w", slot, err)
	}
	exit, err := worker.Wait(b.ctx)
	if err != nil || exit.Code != slot || !exit.Known {
		return fmt.Errorf("wait %d: %+v, %w", slot, exit, err)
	}
	var out strings.Builder
	c := b.cmd("cat mine")
	c.Stdout = &out
	if _, err := sandbox.Exec(b.ctx, c); err != nil || out.String() != fmt.Sprintln(slot) {
		return fmt.Errorf("exec %d: %q, %w", slot, out.String(), err)
	}
	return nil
}

var listCases = []testCase{
	{"list after a restart knows all of this pool and nothing else", func(b *bench) {
		var want []string
		for slot := range 3 {
			b.create(b.spec(slot, 1))
			want = append(want, b.spec(slot, 1).Name)
		}
		other := b.spec(0, 1)
		other.Name, other.Labels.Pool = "suite2-abcd2345-0-g1", "suite2"
		b.create(other)
		for _, p := range []providers.Provider{b.world.Provider, b.world.Reopen()} {
			var got []string
			for _, info := range b.list(p, "suite") {
				got = append(got, info.Name)
				if diff := cmp.Diff(b.spec(info.Labels.Slot, 1).Labels, info.Labels); diff != "" {
					b.Errorf("labels of %s (-want +got):\n%s", info.Name, diff)
				}
				if _, err := p.Open(b.ctx, info.ID); err != nil {
					b.Errorf("open %s as listed: %v", info.ID, err)
				}
			}
			sort.Strings(got)
			if diff := cmp.Diff(want, got); diff != "" {
				b.Errorf("listed (-want +got):\n%s", diff)
			}
		}
	}},
	{"list of a pool that has nothing is empty", func(b *bench) {
		b.sandbox()
		if infos := b.list(b.world.Provider, "sui"); len(infos) != 0 {
			b.Errorf("listed %v", infos)
		}
	}},
	{"check without a probe creates nothing", func(b *bench) {
		findings := b.world.Provider.Check(b.ctx, false)
		for _, f := range findings {
			if f.Name == "" || f.Detail == "" {
				b.Errorf("a finding without name or detail: %+v", f)
			}
		}
		if infos := b.list(b.world.Provider, "suite"); len(findings) == 0 || len(infos) != 0 {
			b.Errorf("findings %v, listed %v", findings, infos)
		}
	}},
}

func (b *bench) list(p providers.Provider, pool string) []providers.Info {
	b.Helper()
	infos, err := p.List(b.ctx, pool)
	b.must(err, "list")
	return infos
}

var errorCases = []testCase{
	{"a command that is none is invalid", func(b *bench) {
		s := b.sandbox()
		_, err := s.Exec(b.ctx, providers.Cmd{})
		b.wantClass(err, providers.Invalid, "exec of nothing")
		_, err = s.Launch(b.ctx, b.id("L1"), providers.Cmd{})
		b.wantClass(err, providers.Invalid, "launch of nothing")
		_, err = s.Process(b.ctx)
		b.wantClass(err, providers.NotFound, "process after a refused launch")
	}},
	{"what is removed is not found", func(b *bench) {
		s := b.sandbox()
		id := b.info(s).ID
		b.must(s.Remove(b.ctx, false), "remove")
		_, err := s.Info(b.ctx)
		b.wantClass(err, providers.NotFound, "info")
		_, err = s.Exec(b.ctx, b.cmd("true"))
		b.wantClass(err, providers.NotFound, "exec")
		_, err = b.world.Provider.Open(b.ctx, id)
		b.wantClass(err, providers.NotFound, "open")
	}},
	{"errors say what was attempted", func(b *bench) {
		_, err := b.world.Provider.Open(b.ctx, "suite-abcd2345-9-g9")
		var classed *providers.Error
		if !errors.As(err, &classed) || classed.Op == "" || classed.Err == nil {
			b.Errorf("open: %#v has no op or no cause", err)
		}
	}},
}
