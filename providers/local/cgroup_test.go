package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/providers"
)

const (
	v1Membership = "9:name=systemd:/\n5:pids:/\n4:memory:/api/13\n2:cpu,cpuacct:/\n0::/\n"
	v1Mounts     = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 master:3 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	v2Membership = "0::/user.slice/session-1.scope\n"
	v2Mounts     = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestLocate(t *testing.T) {
	for _, c := range []struct {
		name, membership, mounts, controller string
		want                                 string // empty: nowhere
	}{
		{"version 1", v1Membership, v1Mounts, "memory", "/sys/fs/cgroup/memory/api/13"},
		{"two controllers in one", v1Membership, v1Mounts, "cpuacct", "/sys/fs/cgroup/cpu,cpuacct"},
		{"not mounted", v1Membership, v1Mounts, "pids", ""},
		{"beside version 1", v1Membership, v1Mounts, "", "/sys/fs/cgroup/unified"},
		{"version 2", v2Membership, v2Mounts, "", "/sys/fs/cgroup/user.slice/session-1.scope"},
		{"version 2 has no trees of controllers", v2Membership, v2Mounts, "memory", ""},
		{"a container that sees only its own", "4:memory:/docker/abc\n", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "memory", "/sys/fs/cgroup/memory"},
		{"below what is mounted", "4:memory:/docker/abc/x\n", "35 31 0:32 /docker/abc /m\\040y ro - cgroup cgroup rw,memory\n", "memory", "/m y/x"},
		{"a mount of another's", "4:memory:/../other\n", "35 31 0:32 /docker/abc /cg ro - cgroup cgroup rw,memory\n", "memory", ""},
		{"neither", "", "", "memory", ""},
		{"nonsense", "x\n::\n1:memory:relative\n", "1 2\n - \n", "memory", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, ok := locate(parseMounts([]byte(c.mounts)), parseMembership([]byte(c.membership)), c.controller)
			if at.own != c.want || ok != (c.want != "") {
				t.Errorf("%+v %v, want %q", at, ok, c.want)
			}
		})
	}
}

// tree makes a folder look like a cgroup tree: files by path.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func joins(string) error { return nil }

func TestVersion1(t *testing.T) {
	dir := tree(t, map[string]string{
		"memory/api/13/pool-s/memory.limit_in_bytes":     "",
		"memory/api/13/pool-s/memory.usage_in_bytes":     "3000\n",
		"memory/api/13/pool-s/memory.stat":               "cache 5\ntotal_inactive_file 1000\n",
		"memory/api/13/pool-s/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"memory/api/13/pool-s/cgroup.procs":              "7\n8\n",
		"cpu,cpuacct/pool-s/cpu.cfs_quota_us":            "",
		"cpu,cpuacct/pool-s/cpu.cfs_period_us":           "",
		"cpu,cpuacct/pool-s/cpuacct.usage":               "1500000000\n",
		"cpu,cpuacct/pool-s/cgroup.procs":                "8\n9\n",
		"unified/cgroup.controllers":                     "",
		"memory/api/13/memory.limit_in_bytes":            "1\n",
		"memory/api/13/pool-other/memory.usage_in_bytes": "9\n",
	})
	g := detectGroups(groupHost{[]byte(v1Membership), []byte(strings.ReplaceAll(v1Mounts, "/sys/fs/cgroup", dir)), joins})
	if g.version != 1 || g.bases["pids"] != "" || g.why["pids"] == "" {
		t.Fatalf("%+v", g)
	}
	join, err := g.enter("s", providers.Resources{CPU: 1.5, Memory: 1 << 20})
	want := []string{dir + "/memory/api/13/pool-s/cgroup.procs", dir + "/cpu,cpuacct/pool-s/cgroup.procs"}
	if err != nil || !cmp.Equal(join, want) {
		t.Fatalf("%q %v", join, err)
	}
	if got := read(t, dir, "memory/api/13/pool-s/memory.limit_in_bytes"); got != "1048576" {
		t.Errorf("memory %q", got)
	}
	if quota, period := read(t, dir, "cpu,cpuacct/pool-s/cpu.cfs_quota_us"), read(t, dir, "cpu,cpuacct/pool-s/cpu.cfs_period_us"); quota != "150000" || period != "100000" {
		t.Errorf("cpu %q of %q", quota, period)
	}
	if cpu, memory := g.usage("s"); cpu != 1500*time.Millisecond || memory != 2000 {
		t.Errorf("%v %d", cpu, memory)
	}
	if n := g.oomKills("s"); n != 2 {
		t.Errorf("%d", n)
	}
	if pids := g.members("s"); !cmp.Equal(pids, []int{7, 8, 9}) {
		t.Errorf("%v", pids)
	}
}

func TestVersion2(t *testing.T) {
	files := map[string]string{
		"user.slice/cgroup.controllers":                     "cpu memory pids\n",
		"user.slice/cgroup.subtree_control":                 "memory cpu pids\n",
		"user.slice/session-1.scope/cgroup.controllers":     "\n",
		"user.slice/session-1.scope/cgroup.subtree_control": "\n",
		"user.slice/pool-s/memory.max":                      "max\n",
		"user.slice/pool-s/cpu.max":                         "max 100000\n",
		"user.slice/pool-s/cpu.stat":                        "usage_usec 2500000\nuser_usec 1\n",
		"user.slice/pool-s/memory.current":                  "500\n",
		"user.slice/pool-s/memory.stat":                     "inactive_file 700\n",
		"user.slice/pool-s/memory.events":                   "low 0\noom 4\noom_kill 3\n",
		"user.slice/pool-s/cgroup.procs":                    "5\n",
	}
	dir := tree(t, files)
	host := groupHost{[]byte(v2Membership), []byte(strings.ReplaceAll(v2Mounts, "/sys/fs/cgroup", dir)), joins}
	g := detectGroups(host)
	join, err := g.enter("s", providers.Resources{CPU: 0.001, Memory: 4096})
	if err != nil || g.version != 2 || !cmp.Equal(join, []string{dir + "/user.slice/pool-s/cgroup.procs"}) {
		t.Fatalf("%+v %q %v", g, join, err)
	}
	if cpu, memory := read(t, dir, "user.slice/pool-s/cpu.max"), read(t, dir, "user.slice/pool-s/memory.max"); cpu != "1000 100000" || memory != "4096" {
		t.Errorf("cpu %q, memory %q", cpu, memory)
	}
	if cpu, memory := g.usage("s"); cpu != 2500*time.Millisecond || memory != 0 {
		t.Errorf("%v %d", cpu, memory)
	}
	if n := g.oomKills("s"); n != 3 {
		t.Errorf("%d", n)
	}
	// A group that no process can be moved to is of no use.
	host.join = func(string) error { return errors.New("permission denied") }
	if g := detectGroups(host); len(g.bases) != 0 || g.enterError(providers.Resources{Memory: 1}) == nil {
		t.Errorf("%+v", g)
	}
	// Nor is one that has no controllers.
	host.join = joins
	os.WriteFile(filepath.Join(dir, "user.slice/cgroup.controllers"), []byte("pids\n"), 0o600)
	if g := detectGroups(host); g.enterError(providers.Resources{Memory: 1}) == nil || g.enterError(providers.Resources{}) != nil {
		t.Errorf("%+v", g)
	}
}

func (g *groups) enterError(r providers.Resources) error {
	_, err := g.enter("s", r)
	return err
}

func TestWithoutCgroups(t *testing.T) {
	g := detectGroups(groupHost{join: joins})
	if join, err := g.enter("s", providers.Resources{}); err != nil || join != nil || g.version != 0 {
		t.Fatalf("%q %v", join, err)
	}
	if cpu, memory := g.usage("s"); cpu != -1 || memory != -1 || g.oomKills("s") != 0 || g.members("s") != nil {
		t.Errorf("%v %d", cpu, memory)
	}
	p := &Provider{groups: g}
	err := p.CheckLimits(providers.Resources{CPU: 1, Memory: 1, Disk: 1, GPU: "1"})
	if !providers.Is(err, providers.Invalid) {
		t.Fatal(err)
	}
	for _, want := range []string{"cpu cannot be set: this machine shows no cpu cgroup", "memory cannot", "disk cannot", "gpu cannot", "[sandbox]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	if err := p.CheckLimits(providers.Resources{}); err != nil {
		t.Error(err)
	}
}

// TestRealLimits is about this machine: either a limit holds, or it is refused.
func TestRealLimits(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		limited := spec(0, 1)
		limited.Resources = providers.Resources{CPU: 0.5, Memory: 64 << 20}
		err := p.CheckLimits(limited.Resources)
		made, createErr := p.Create(testContext(t), limited)
		if err != nil {
			if !providers.Is(err, providers.Invalid) || !providers.Is(createErr, providers.Invalid) {
				t.Fatalf("%v and %v", err, createErr)
			}
			t.Skipf("refused here, as it should be: %v", err)
		}
		if createErr != nil {
			t.Fatal(createErr)
		}
		s := made.(*Sandbox)
		w := start(t, s, "l1", "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo survived; sleep 60")
		if exit := wait(t, w); exit.Code != 137 || !exit.OOM {
			t.Errorf("%+v %q", exit, output(t, w))
		}
		if exit := wait(t, start(t, s, "l2", "exit 1")); exit.OOM {
			t.Errorf("the next launch inherits the mark: %+v", exit)
		}
	})
}
