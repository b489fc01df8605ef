package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outpostpool/pool/providers"
)

// groups makes a cgroup for each sandbox, where this process may. Version 1
// has one tree per controller, version 2 one for all. Without any, methods do
// nothing, and limits cannot be set.
type groups struct {
	version int               // 1, 2, or 0: none to be seen
	bases   map[string]string // controller to the folder our groups go into; only those that work
	why     map[string]string // controller to why it does not
}

// controllers are what we use: two to limit, two that only count. In version
// 2 cpuacct is part of the base files, and always there.
var controllers = []string{"memory", "cpu", "cpuacct", "pids"}

const groupPrefix = "pool-"

// groupHost is what groups are found by.
type groupHost struct {
	membership, mountinfo []byte
	join                  func(procs string) error // can a process join through this file?
}

func findGroups(shell string) *groups {
	membership, _ := os.ReadFile("/proc/self/cgroup")
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	return detectGroups(groupHost{membership, mountinfo, func(procs string) error {
		return exec.Command(shell, "-c", `echo $$ >"$1"`, "sh", procs).Run()
	}})
}

// detectGroups finds out where groups can be made, by making one. Where both
// versions are mounted, 1 has the controllers.
func detectGroups(h groupHost) *groups {
	g := &groups{bases: map[string]string{}, why: map[string]string{}}
	mounts, members := parseMounts(h.mountinfo), parseMembership(h.membership)
	for _, controller := range controllers {
		at, ok := locate(mounts, members, controller)
		if !ok {
			g.why[controller] = "this machine shows no " + controller + " cgroup"
			continue
		}
		g.version = 1
		if err := h.try(at.own); err != nil {
			g.why[controller] = err.Error()
		} else {
			g.bases[controller] = at.own
		}
	}
	if at, ok := locate(mounts, members, ""); ok && g.version == 0 {
		g.version = 2
		g.detectUnified(h, at)
	}
	return g
}

// detectUnified looks for the one folder whose children can have controllers:
// ours if it is the root or has no processes of its own, else the one above.
func (g *groups) detectUnified(h groupHost, at place) {
	bases := []string{at.own}
	if at.own != at.top {
		bases = append(bases, filepath.Dir(at.own))
	}
	for _, base := range bases {
		if err := h.try(base); err != nil {
			g.deny(controllers, err.Error())
			continue
		}
		found := map[string]string{"cpuacct": base} // every group counts
		for _, controller := range []string{"memory", "cpu", "pids"} {
			if enable(base, controller) {
				found[controller] = base
			} else {
				g.deny([]string{controller}, fmt.Sprintf("%s does not pass the %s controller on", base, controller))
			}
		}
		if len(found) > len(g.bases) {
			g.bases = found
		}
	}
}

func (g *groups) deny(controllers []string, why string) {
	for _, controller := range controllers {
		g.why[controller] = why
	}
}

// enable asks a version 2 folder to give its children a controller.
func enable(base, controller string) bool {
	has := func(file string) bool {
		data, err := os.ReadFile(filepath.Join(base, file))
		return err == nil && slices.Contains(strings.Fields(string(data)), controller)
	}
	if !has("cgroup.controllers") {
		return false
	}
	if has("cgroup.subtree_control") {
		return true
	}
	return writeValue(base, "cgroup.subtree_control", "+"+controller) == nil && has("cgroup.subtree_control")
}

// try makes a group below base, joins it with a process, and removes it.
func (h groupHost) try(base string) error {
	trial := filepath.Join(base, groupPrefix+"trial-"+rand.Text())
	if err := os.Mkdir(trial, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("no group can be made in %s: %w", base, errors.Unwrap(err))
	}
	defer removeGroup(trial)
	if err := h.join(filepath.Join(trial, "cgroup.procs")); err != nil {
		return fmt.Errorf("no process can be moved to a group in %s", base)
	}
	return nil
}

// writeValue writes one value to an existing control file. Kernel files want
// it in one write; creating one would be a mistake.
func writeValue(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// dirs are a sandbox's groups, each once.
func (g *groups) dirs(name string) []string {
	var dirs []string
	for _, controller := range controllers {
		if base := g.bases[controller]; base != "" {
			if dir := filepath.Join(base, groupPrefix+name); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

func (g *groups) dir(name, controller string) string {
	if base := g.bases[controller]; base != "" {
		return filepath.Join(base, groupPrefix+name)
	}
	return ""
}

// enter makes a sandbox's groups with its limits, and returns the files that a
// process writes its number to in order to join. Where no limit is asked for
// and no group can be made there are none: then /proc must do.
func (g *groups) enter(name string, r providers.Resources) ([]string, error) {
	var join []string
	for _, dir := range g.dirs(name) {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			if limited(r) {
				return nil, fmt.Errorf("cannot make the cgroup for its limits: %w", err)
			}
			continue
		}
		join = append(join, filepath.Join(dir, "cgroup.procs"))
	}
	return join, g.limit(name, r)
}

func limited(r providers.Resources) bool { return r.CPU > 0 || r.Memory > 0 }

// cpuPeriod is the kernel's default.
const cpuPeriod = 100 * time.Millisecond

// limit writes a sandbox's limits, and takes back what is not asked for.
func (g *groups) limit(name string, r providers.Resources) error {
	var errs []error
	set := func(controller, file, value string) {
		dir := g.dir(name, controller)
		if dir == "" {
			errs = append(errs, errors.New(g.why[controller]))
		} else if err := writeValue(dir, file, value); err != nil {
			errs = append(errs, fmt.Errorf("cannot set %s to %s: %w", file, value, err))
		}
	}
	quota := max(int64(r.CPU*float64(cpuPeriod.Microseconds())), 1000) // the kernel's least
	switch {
	case r.CPU > 0 && g.version == 2:
		set("cpu", "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod.Microseconds()))
	case r.CPU > 0:
		set("cpu", "cpu.cfs_period_us", strconv.FormatInt(cpuPeriod.Microseconds(), 10))
		set("cpu", "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
	}
	switch {
	case r.Memory > 0 && g.version == 2:
		set("memory", "memory.max", strconv.FormatInt(r.Memory, 10))
	case r.Memory > 0:
		set("memory", "memory.limit_in_bytes", strconv.FormatInt(r.Memory, 10))
	}
	return errors.Join(errs...)
}

// members are the processes in a sandbox's groups.
func (g *groups) members(name string) []int {
	var pids []int
	for _, dir := range g.dirs(name) {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// oomKills counts the processes of a sandbox that the kernel killed for want
// of memory.
func (g *groups) oomKills(name string) int64 {
	dir := g.dir(name, "memory")
	if dir == "" {
		return 0
	}
	file := "memory.oom_control"
	if g.version == 2 {
		file = "memory.events"
	}
	return readKeyed(dir, file, "oom_kill")
}

// usage is consumed processor time and memory in use, negative where the
// groups do not tell.
func (g *groups) usage(name string) (cpu time.Duration, memory int64) {
	cpu, memory = -1, -1
	if dir := g.dir(name, "cpuacct"); dir != "" {
		if g.version == 2 {
			if us := readKeyed(dir, "cpu.stat", "usage_usec"); us > 0 {
				cpu = time.Duration(us) * time.Microsecond
			}
		} else if ns, ok := readNumber(dir, "cpuacct.usage"); ok {
			cpu = time.Duration(ns)
		}
	}
	if dir := g.dir(name, "memory"); dir != "" {
		file, cache := "memory.usage_in_bytes", "total_inactive_file"
		if g.version == 2 {
			file, cache = "memory.current", "inactive_file"
		}
		if used, ok := readNumber(dir, file); ok {
			// Cached files that nobody uses are not the worker's need.
			memory = max(used-readKeyed(dir, "memory.stat", cache), 0)
		}
	}
	return cpu, memory
}

// remove removes a sandbox's groups. One that still has a process stays, and
// is found again by its name.
func (g *groups) remove(name string) {
	for _, dir := range g.dirs(name) {
		removeGroup(dir)
	}
}

func removeGroup(dir string) {
	for range 20 {
		if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(5 * time.Millisecond) // the kernel lets go of the dead a little later
	}
}

func readNumber(dir, file string) (int64, bool) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// readKeyed reads one "key number" line, 0 when there is none.
func readKeyed(dir, file, key string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}
