package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	wallsWorkspace = "/workspace"
	wallsCache     = "/run/cache"
)

// system is what walls are made of, read from the host once.
type system struct {
	dirs  []string          // folders that show read-only
	links map[string]string // links at the top, as /bin -> usr/bin
	binds []string          // further files and folders, read-only; each exists
	hide  []hidden
}

// hidden is a folder or file that no session may see.
type hidden struct {
	path string
	file bool
}

// mount is one mount of the walls.
type mount struct {
	path string
	how  []string // the option and its operands before path
	show bool     // shows something of the host
	last bool     // at one path, covers what else is there
}

// wallArgs gives bubblewrap's arguments that all sandboxes share. Mounts come
// in the order of their paths, so that a deeper one is never covered: a folder
// is hidden with everything below it but what is bound by name.
//
// No --die-with-parent: the worker must outlive the supervisor. No capability
// is left, since bubblewrap keeps all of them for root, who could unmount.
func wallArgs(s system) []string {
	var mounts []mount
	for _, dir := range s.dirs {
		mounts = append(mounts, mount{path: dir, how: []string{"--ro-bind", dir}, show: true})
	}
	for path, target := range s.links {
		mounts = append(mounts, mount{path: path, how: []string{"--symlink", target}})
	}
	for _, path := range []string{"/tmp", "/var/tmp", "/run", "/home", "/root"} {
		mounts = append(mounts, mount{path: path, how: []string{"--tmpfs"}})
	}
	for _, path := range s.binds {
		mounts = append(mounts, mount{path: path, how: []string{"--ro-bind", path}, show: true})
	}
	for _, h := range s.hide {
		if !visible(mounts, h.path) {
			continue
		}
		how := []string{"--tmpfs"}
		if h.file {
			how = []string{"--ro-bind", "/dev/null"}
		}
		mounts = append(mounts, mount{path: h.path, how: how, last: true})
	}
	slices.SortStableFunc(mounts, func(a, b mount) int {
		if order := strings.Compare(a.path, b.path); order != 0 {
			return order
		}
		switch {
		case a.last == b.last:
			return 0
		case a.last:
			return 1
		default:
			return -1
		}
	})
	args := []string{"--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"}
	for _, m := range mounts {
		args = append(append(args, m.how...), m.path)
	}
	return append(args, "--proc", "/proc", "--dev", "/dev")
}

// visible reports whether path, or something on the way to it, is shown.
// What no mount shows needs no hiding, and hiding it would tell its name.
func visible(mounts []mount, path string) bool {
	return slices.ContainsFunc(mounts, func(m mount) bool { return m.show && within(path, m.path) })
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// sandboxArgs adds what is one sandbox's own. A command on a terminal keeps
// the session that gave it the terminal, or makes its own when it takes that
// (see tryTerminal); all others get one of their own here.
func sandboxArgs(walls []string, workspace, cache string, tty bool) []string {
	args := slices.Clone(walls)
	args = append(args, "--bind", workspace, wallsWorkspace, "--bind", cache, wallsCache, "--chdir", "/")
	if !tty {
		args = append(args, "--new-session")
	}
	return append(args, "--")
}

// readSystem looks at the host for wallArgs.
func readSystem(binds, hide []string, home string) system {
	s := system{links: map[string]string{}}
	for _, path := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/etc", "/opt", "/nix", "/snap", "/sys"} {
		info, err := os.Lstat(path)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			if target, err := os.Readlink(path); err == nil {
				s.links[path] = target
			}
		case info.IsDir():
			s.dirs = append(s.dirs, path)
		}
	}
	// A name server's file is often a link into /run, which walls hide.
	if target, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && within(target, "/run") {
		binds = append(slices.Clone(binds), target)
	}
	if home != "" { // where devin's installer puts it (facts outposts.md 1.6)
		binds = append(slices.Clone(binds), filepath.Join(home, ".local/bin"), filepath.Join(home, ".local/share/devin"))
	}
	for _, path := range binds {
		path = filepath.Clean(path)
		if _, err := os.Stat(path); err == nil && !slices.Contains(s.binds, path) {
			s.binds = append(s.binds, path)
		}
	}
	for _, path := range hide {
		// Bubblewrap mounts on what a path leads to.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		info, err := os.Stat(path)
		s.hide = append(s.hide, hidden{path: filepath.Clean(path), file: err == nil && !info.IsDir()})
	}
	return s
}
