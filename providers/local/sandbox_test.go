package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/outpostpool/pool/providers"
)

func TestCreateTwiceMakesOne(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		var all sync.WaitGroup
		made := make([]providers.Sandbox, 8)
		for i := range made {
			all.Go(func() { made[i], _ = p.Create(testContext(t), spec(0, 1)) })
		}
		all.Wait()
		first, err := made[0].Info(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range made {
			if info, err := s.Info(testContext(t)); err != nil || info.Incarnation != first.Incarnation {
				t.Fatalf("%+v %v, want %+v", info, err, first)
			}
		}
		infos, err := p.List(testContext(t), "web")
		if err != nil || len(infos) != 1 || infos[0].Labels != spec(0, 1).Labels || infos[0].State != providers.Running {
			t.Fatalf("%+v %v", infos, err)
		}
		if others, err := p.List(testContext(t), "we"); err != nil || len(others) != 0 {
			t.Fatalf("another pool sees %+v %v", others, err)
		}
	})
}

func TestAWorkspaceHasOneSandbox(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		ctx := testContext(t)
		first := create(t, p, spec(0, 1))
		if _, err := p.Create(ctx, spec(0, 2)); !providers.Is(err, providers.Conflict) {
			t.Fatalf("the next generation beside the first: %v", err)
		}
		create(t, p, spec(1, 1))
		run(t, first, "echo mine > repos/kept; echo home > ~/kept")
		if err := first.Remove(ctx, true); err != nil {
			t.Fatal(err)
		}
		if err := first.Remove(ctx, false); err != nil {
			t.Fatalf("removed twice: %v", err)
		}
		if _, err := first.Info(ctx); !providers.Is(err, providers.NotFound) {
			t.Fatalf("info of a removed one: %v", err)
		}
		infos, err := p.List(ctx, "web")
		if err != nil || len(infos) != 2 {
			t.Fatalf("%+v %v", infos, err)
		}
		kept, err := p.Open(ctx, "workspace:web-0a1b2c3d-0")
		if err != nil {
			t.Fatal(err)
		}
		info, err := kept.Info(ctx)
		if err != nil || info.State != providers.Gone || !info.Retained || info.Labels != spec(0, 1).Labels {
			t.Fatalf("%+v %v", info, err)
		}
		second := create(t, p, spec(0, 2))
		if text := fileText(second, "repos/kept") + fileText(second, ".home/kept"); text != "minehome" {
			t.Fatalf("the workspace lost its files: %q", text)
		}
		// The old handle must not reach the new owner's workspace.
		if err := kept.Remove(ctx, false); err != nil || fileText(second, "repos/kept") != "mine" {
			t.Fatalf("a stale handle discarded a workspace in use: %v", err)
		}
		if err := second.Remove(ctx, true); err != nil {
			t.Fatal(err)
		}
		fresh := spec(0, 3)
		fresh.Fresh = true
		if third := create(t, p, fresh); fileText(third, "repos/kept") != "" {
			t.Fatal("fresh kept files")
		}
	})
}

func TestRemoveLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		start(t, s, "l1", "sleep 1717 & exec sleep 1717")
		run(t, s, "mkdir -p repos/mod/deep && touch repos/mod/deep/file && chmod 500 repos/mod/deep && chmod 0 repos/mod")
		if err := s.Remove(testContext(t), false); err != nil {
			t.Fatal(err)
		}
		var left []string
		filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
			left = append(left, path)
			return err
		})
		if len(left) != 2 { // the folder and workspaces/
			t.Fatalf("left behind: %q", left)
		}
		if n := sleepers(t, "1717"); n != 0 {
			t.Fatalf("%d processes left", n)
		}
		if dirs := p.groups.members(s.group()); dirs != nil {
			t.Fatalf("its cgroup is still there: %v", dirs)
		}
	})
}

func TestModes(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		s := create(t, p, spec(0, 1))
		wait(t, start(t, s, "l1", "echo hello"))
		filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			info, err := d.Info()
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v %v", path, info.Mode(), err)
			}
			return nil
		})
	})
}

func TestNamesCannotEscape(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "sandboxes"), "none")
	for _, name := range []string{"", ".", "..", "../x", "a/b", "workspaces", "-x", "A", "a\x00", ".trash-x", "a.json"} {
		s := spec(0, 1)
		s.Name = name
		if _, err := p.Create(testContext(t), s); !providers.Is(err, providers.Invalid) {
			t.Errorf("create %q: %v", name, err)
		}
		if _, err := p.Open(testContext(t), name); !providers.Is(err, providers.NotFound) {
			t.Errorf("open %q: %v", name, err)
		}
		s = spec(0, 1)
		s.Labels.Pool = name
		if name != "workspaces" {
			if _, err := p.Create(testContext(t), s); !providers.Is(err, providers.Invalid) {
				t.Errorf("create in pool %q: %v", name, err)
			}
		}
		if _, err := p.Open(testContext(t), workspaceID+name); !providers.Is(err, providers.NotFound) {
			t.Errorf("open workspace %q: %v", name, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := open(t, filepath.Join(t.TempDir(), "sandboxes"), "none")
	for name, change := range map[string]func(*providers.Spec){
		"a secret":    func(s *providers.Spec) { s.Secrets = []providers.SecretRef{{Env: "X"}} },
		"a disk":      func(s *providers.Spec) { s.Resources.Disk = 1 << 30 },
		"a gpu":       func(s *providers.Spec) { s.Resources.GPU = "1" },
		"a negative":  func(s *providers.Spec) { s.Resources.Memory = -1 },
		"a slot of -": func(s *providers.Spec) { s.Labels.Slot = -1 },
	} {
		s := spec(0, 1)
		change(&s)
		if _, err := p.Create(testContext(t), s); !providers.Is(err, providers.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := spec(0, 1)
	s.From = "snap"
	if _, err := p.Create(testContext(t), s); !providers.Is(err, providers.BadSnapshot) {
		t.Errorf("a snapshot: %v", err)
	}
	if _, err := New(Options{Dir: "sandboxes"}); !providers.Is(err, providers.Invalid) {
		t.Errorf("a relative folder: %v", err)
	}
	if _, err := New(Options{Dir: t.TempDir(), Isolation: "jail"}); !providers.Is(err, providers.Invalid) {
		t.Errorf("an isolation that does not exist: %v", err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Create(done, spec(0, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("create in a context that is over: %v", err)
	}
}

func TestHalfRemovedThingsAreSwept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandboxes")
	p := open(t, dir, "none")
	s := create(t, p, spec(0, 1))
	// A crash in the middle of a Create, and of a Remove.
	if err := os.Remove(filepath.Join(dir, s.meta.Name, metaFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, trashPrefix+"x", "deep", "deeper"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, trashPrefix+"x", "deep"), 0o500); err != nil {
		t.Fatal(err)
	}
	p = open(t, dir, "none")
	if _, err := os.Stat(filepath.Join(dir, trashPrefix+"x")); err == nil {
		t.Error("the trash was not swept")
	}
	if _, err := p.Open(testContext(t), s.meta.Name); !providers.Is(err, providers.NotFound) {
		t.Errorf("half a sandbox exists: %v", err)
	}
	create(t, p, spec(0, 2))
	removeAll(t, p)
}
