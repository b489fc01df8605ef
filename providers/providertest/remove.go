package providertest

import (
	"github.com/outpostpool/pool/providers"
)

var removeCases = []testCase{
	{"removing twice is removing once", func(b *bench) {
		s := b.sandbox()
		again := b.reopen(s)
		for _, sandbox := range []providers.Sandbox{s, s, again} {
			b.must(sandbox.Remove(b.ctx, false), "remove")
		}
		if infos := b.list(b.world.Provider, "suite"); len(infos) != 0 {
			b.Errorf("still listed: %v", infos)
		}
	}},
	{"removing ends the worker and all of its tree", func(b *bench) {
		// With the workspace kept, the next generation shows whether any of
		// the old tree still writes there.
		s, _ := b.family()
		b.requireRetained(s)
		b.must(s.Remove(b.ctx, true), "remove")
		next := b.create(b.spec(0, 2))
		b.rests(next, familyNames...)
	}},
	{"a kept workspace is listed and used by the next generation", func(b *bench) {
		first := b.sandbox()
		b.requireRetained(first)
		b.sh(first, "mkdir repos.kept; echo work >repos.kept/file")
		b.must(first.Remove(b.ctx, true), "remove")
		for _, p := range []providers.Provider{b.world.Provider, b.world.Reopen()} {
			infos := b.list(p, "suite")
			if len(infos) != 1 || !infos[0].Retained || infos[0].State == providers.Running || infos[0].Labels.Slot != 0 {
				b.Fatalf("after the removal %+v is listed, want one retained workspace", infos)
			}
		}
		second := b.create(b.spec(0, 2))
		if got := b.sh(second, "cat repos.kept/file"); got != "work\n" {
			b.Errorf("the next generation reads %q", got)
		}
		if infos := b.list(b.world.Provider, "suite"); len(infos) != 1 || infos[0].Name != b.spec(0, 2).Name {
			b.Errorf("with the next generation %+v is listed, want it alone", infos)
		}
	}},
	{"fresh ignores a kept workspace", func(b *bench) {
		first := b.sandbox()
		b.requireRetained(first)
		b.sh(first, "echo work >file")
		b.must(first.Remove(b.ctx, true), "remove")
		spec := b.spec(0, 2)
		spec.Fresh = true
		b.sh(b.create(spec), "[ ! -e file ]")
	}},
	{"a workspace that is not kept is gone", func(b *bench) {
		first := b.sandbox()
		b.sh(first, "echo work >file")
		b.must(first.Remove(b.ctx, false), "remove")
		if infos := b.list(b.world.Reopen(), "suite"); len(infos) != 0 {
			b.Errorf("still listed: %v", infos)
		}
		b.sh(b.create(b.spec(0, 2)), "[ ! -e file ]")
	}},
	{"another slot has another workspace", func(b *bench) {
		b.sh(b.create(b.spec(0, 1)), "echo work >file")
		b.sh(b.create(b.spec(1, 1)), "[ ! -e file ]")
	}},
	{"an incarnation is another after removal and creation", func(b *bench) {
		first := b.sandbox()
		was := b.info(first).Incarnation
		b.wait(b.launch(first, "L1", b.cmd("exit 0")))
		b.must(first.Remove(b.ctx, false), "remove")
		second := b.sandbox()
		if now := b.info(second).Incarnation; now == was {
			b.Errorf("the incarnation stays %q", now)
		}
		_, err := second.Process(b.ctx)
		b.wantClass(err, providers.NotFound, "process of the new one")
	}},
}

func (b *bench) requireRetained(s providers.Sandbox) {
	b.Helper()
	if !b.info(s).Retained {
		b.Skip("this provider keeps no workspace")
	}
}
