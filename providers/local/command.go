package local

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/outpostpool/pool/providers"
)

// enter goes to the folder and becomes the command; a shell gives 126 and 127
// where people expect them.
const enter = `cd "$1" || exit 126; shift; exec "$@"`

// argv wraps a command in the sandbox's walls, if any, and enters its folder.
// No variable is in it.
func (s *Sandbox) argv(c providers.Cmd) []string {
	inside := append([]string{s.p.shell, "-c", enter, "sh", s.folder(c.Dir)}, c.Args...)
	if s.p.walls == nil {
		return inside
	}
	inside[0] = "/bin/sh" // the host's choice of a shell may not be visible
	if c.TTY && s.p.ctty != nil {
		inside = append(slices.Clone(s.p.ctty), inside...)
	}
	return append(sandboxArgs(s.p.walls, s.p.hostWorkspace(s.meta.Labels), s.p.hostCache(s.meta), c.TTY), inside...)
}

// folder makes a command's folder absolute, as the command sees it.
func (s *Sandbox) folder(dir string) string {
	if path.IsAbs(dir) {
		return path.Clean(dir)
	}
	return path.Join(s.p.info(s.meta).Workspace, dir)
}

// environment is the command's own, with PATH and HOME where it brings none:
// without these two hardly anything runs.
func (s *Sandbox) environment(env map[string]string) map[string]string {
	full := map[string]string{"PATH": s.p.path, "HOME": s.p.info(s.meta).Home}
	maps.Copy(full, env)
	return full
}

func flatten(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// checkCmd refuses what no process can be given.
func checkCmd(op string, c providers.Cmd) error {
	invalid := func(format string, args ...any) error {
		return providers.Errorf(providers.Invalid, op, format, args...)
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return invalid("the command is empty")
	}
	if strings.Contains(strings.Join(c.Args, "")+c.Dir, "\x00") {
		return invalid("an argument holds a zero byte")
	}
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return invalid("the variable %q cannot be set", name)
		}
	}
	return nil
}
