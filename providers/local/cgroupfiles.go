package local

import (
	"bufio"
	"bytes"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// membership is one line of /proc/self/cgroup.
type membership struct {
	controllers []string // empty for version 2
	path        string
}

// parseMembership reads /proc/self/cgroup (cgroups(7)): "4:memory:/a/b" for
// version 1, "0::/a/b" for version 2.
func parseMembership(data []byte) []membership {
	var all []membership
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		m := membership{path: parts[2]}
		if parts[1] != "" {
			m.controllers = strings.Split(parts[1], ",")
		}
		all = append(all, m)
	}
	return all
}

// cgroupMount is one mounted hierarchy.
type cgroupMount struct {
	point   string // where it is mounted
	root    string // which of its folders is mounted there
	v2      bool
	options []string // controllers are among them in version 1
}

// parseMounts reads the cgroup mounts of /proc/self/mountinfo (proc(5)).
func parseMounts(data []byte) []cgroupMount {
	var all []cgroupMount
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		mount, system, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(mount), strings.Fields(system)
		if !ok || len(left) < 6 || len(right) < 3 {
			continue
		}
		if right[0] != "cgroup" && right[0] != "cgroup2" {
			continue
		}
		all = append(all, cgroupMount{
			point: unescape(left[4]), root: unescape(left[3]),
			v2: right[0] == "cgroup2", options: strings.Split(right[2], ","),
		})
	}
	return all
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// place is where this process is in one hierarchy: top is the highest folder
// to be seen, own the process's folder below it.
type place struct{ top, own string }

// locate finds our folder for a controller of version 1, or of version 2 when
// controller is empty; ok is false when there is none to be seen.
func locate(mounts []cgroupMount, members []membership, controller string) (place, bool) {
	for _, m := range members {
		if controller == "" && len(m.controllers) > 0 || controller != "" && !slices.Contains(m.controllers, controller) {
			continue
		}
		for _, mount := range mounts {
			if mount.v2 != (controller == "") || !mount.v2 && !slices.Contains(mount.options, controller) {
				continue
			}
			switch {
			case within(m.path, mount.root):
				return place{mount.point, path.Join(mount.point, strings.TrimPrefix(m.path, mount.root))}, true
			case !strings.HasPrefix(m.path, "/.."):
				// In a container without a cgroup namespace the mount shows our
				// own folder, and the path is the host's.
				return place{mount.point, mount.point}, true
			}
		}
	}
	return place{}, false
}

// named are the names of the groups that sandboxes of this name have: a name
// of ours is the sandbox's, a dot, and its incarnation.
func (g *groups) named(sandbox string) []string {
	var names []string
	for _, pattern := range g.dirs(sandbox + ".*") {
		found, _ := filepath.Glob(pattern)
		for _, dir := range found {
			if name := strings.TrimPrefix(filepath.Base(dir), groupPrefix); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
