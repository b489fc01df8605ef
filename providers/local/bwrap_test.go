package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/providers"
)

func TestWallArgs(t *testing.T) {
	const before = "--unshare-pid --unshare-ipc --cap-drop ALL "
	const after = " --proc /proc --dev /dev"
	for _, c := range []struct {
		name string
		s    system
		want string
	}{
		{"a system",
			system{dirs: []string{"/usr", "/etc"}, links: map[string]string{"/bin": "usr/bin"}},
			"--symlink usr/bin /bin --ro-bind /etc /etc --tmpfs /home --tmpfs /root --tmpfs /run --tmpfs /tmp --ro-bind /usr /usr --tmpfs /var/tmp"},
		{"binds lie above what hides their place",
			system{binds: []string{"/home/u/.local/bin", "/tmp/x/worker"}},
			"--tmpfs /home --ro-bind /home/u/.local/bin /home/u/.local/bin --tmpfs /root --tmpfs /run --tmpfs /tmp --ro-bind /tmp/x/worker /tmp/x/worker --tmpfs /var/tmp"},
		{"what is visible and to be hidden",
			system{dirs: []string{"/opt"}, hide: []hidden{{path: "/opt/pool/state"}, {path: "/opt/pool/pool.toml", file: true}, {path: "/srv/state"}}},
			"--tmpfs /home --ro-bind /opt /opt --ro-bind /dev/null /opt/pool/pool.toml --tmpfs /opt/pool/state --tmpfs /root --tmpfs /run --tmpfs /tmp --tmpfs /var/tmp"},
		{"a hidden place that is bound stays hidden, but for what is bound inside",
			system{binds: []string{"/opt/pool/bin/worker", "/opt/pool"}, hide: []hidden{{path: "/opt/pool"}}},
			"--tmpfs /home --ro-bind /opt/pool /opt/pool --tmpfs /opt/pool --ro-bind /opt/pool/bin/worker /opt/pool/bin/worker --tmpfs /root --tmpfs /run --tmpfs /tmp --tmpfs /var/tmp"},
		{"a name that only begins alike is not inside",
			system{dirs: []string{"/opt"}, hide: []hidden{{path: "/optional"}}},
			"--tmpfs /home --ro-bind /opt /opt --tmpfs /root --tmpfs /run --tmpfs /tmp --tmpfs /var/tmp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(before+c.want+after, strings.Join(wallArgs(c.s), " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
	got := sandboxArgs([]string{"bwrap", "--x"}, "/s/w", "/s/c", false)
	if want := "bwrap --x --bind /s/w /workspace --bind /s/c /run/cache --chdir / --new-session --"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
	if got := sandboxArgs([]string{"bwrap"}, "/s/w", "/s/c", true); strings.Contains(strings.Join(got, " "), "--new-session") {
		t.Errorf("a terminal would be lost: %q", got)
	}
}

// TestWalls looks from inside.
func TestWalls(t *testing.T) {
	top := t.TempDir()
	dir, tools, config := filepath.Join(top, "state/sandboxes"), filepath.Join(top, "tools"), filepath.Join(top, "tools/config")
	for _, each := range []string{dir, config} {
		if err := os.MkdirAll(each, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"state/pool.db": "records", "tools/config/pool.toml": "secret", "tools/tool": "#!/bin/sh\necho tool works\n",
	} {
		if err := os.WriteFile(filepath.Join(top, path), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(Options{Dir: dir, Isolation: "bwrap", Hide: []string{filepath.Join(top, "state"), config}, Binds: []string{tools}})
	if providers.Is(err, providers.Invalid) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, p) })
	s, other := create(t, p, spec(0, 1)), create(t, p, spec(1, 1))
	run(t, other, "echo private > file")
	start(t, other, "l1", "exec sleep 3232")
	home, _ := os.UserHomeDir()
	for name, c := range map[string]struct{ script, want string }{
		"the workspace":           {"pwd; echo $HOME; touch x .home/y && ls -A", "/workspace\n/workspace/.home\n.home\nrepos\nx\n"},
		"the cache":               {"touch " + p.info(s.meta).Cache + "/x && echo yes", "yes\n"},
		"own /tmp":                {"ls -A /tmp | grep -v " + filepath.Base(filepath.Dir(top)) + "; touch /tmp/x && echo yes", "yes\n"},
		"a bound tool":            {tools + "/tool", "tool works\n"},
		"no config":               {"ls -A " + config, ""},
		"no records":              {"ls -A " + top, "tools\n"},
		"no other workspace":      {"cat " + p.hostWorkspace(other.meta.Labels) + "/file 2>/dev/null || echo no", "no\n"},
		"no other processes":      {"grep -l 32[3]2 /proc/[0-9]*/cmdline; echo end", "end\n"},
		"no writing to /usr":      {"touch /usr/x 2>/dev/null || echo no", "no\n"},
		"no writing to the tools": {"touch " + tools + "/x 2>/dev/null || echo no", "no\n"},
		"no home but the tools":   {"ls -A " + home + " 2>/dev/null | grep -v '^.local$'; echo end", "end\n"},
		"no capabilities":         {"sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status", "0000000000000000\n"},
		"the network":             {"cat /proc/net/dev | grep -c lo:", "1\n"},
		"devices":                 {"echo x > /dev/null && ls /dev/sda /dev/vda /dev/mem 2>/dev/null; echo end", "end\n"},
	} {
		if got, exit := run(t, s, c.script); got != c.want {
			t.Errorf("%s: %q %+v, want %q", name, got, exit, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(p.hostCache(s.meta), "x")); err != nil {
		t.Error(err)
	}
}

func TestWallsThatCannotBe(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "bwrap")
	for text, why := range map[string]string{
		"echo 'No permissions to create a new namespace' >&2; exit 1": "No permissions to create a new namespace",
		"exit 0": "did not run what it was given",
	} {
		if err := os.WriteFile(broken, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		o := Options{Dir: t.TempDir(), BwrapPath: broken}
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Isolation(); got.Mode != "none" || !strings.Contains(got.Reason, why) || strings.Contains(got.Reason, "\n") {
			t.Errorf("%+v", got)
		}
		o.Isolation = "bwrap"
		if _, err := New(o); !providers.Is(err, providers.Invalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v", err)
		}
	}
}
