package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processes finds every living process of this world: by its folder in the
// command line, the environment or as the current directory.
func (w *world) processes() map[int]string {
	found := map[int]string{}
	for _, pid := range pids() {
		if pid == os.Getpid() || !w.owns(pid) || !alive(pid) {
			continue
		}
		found[pid] = cmdline(pid)
	}
	return found
}

func (w *world) owns(pid int) bool {
	root := procPath(pid, "")
	line, _ := os.ReadFile(root + "cmdline")
	env, _ := os.ReadFile(root + "environ")
	cwd, _ := os.Readlink(root + "cwd")
	// The folder's name is unique, so any mention is a hit.
	return bytes.Contains(line, []byte(w.dir)) || bytes.Contains(env, []byte(w.dir)) || strings.HasPrefix(cwd, w.dir)
}

func pids() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func procPath(pid int, file string) string {
	return filepath.Join("/proc", strconv.Itoa(pid)) + "/" + file
}

// cmdline is a process's command line with spaces between the words.
func cmdline(pid int) string {
	line, _ := os.ReadFile(procPath(pid, "cmdline"))
	return strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	stat, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return false
	}
	_, after, found := strings.Cut(string(stat), ") ")
	return found && !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// threads tells what each thread of a process does: what keeps it from ending.
func threads(pid int) string {
	var b strings.Builder
	tasks, _ := os.ReadDir(procPath(pid, "task"))
	for _, each := range tasks {
		root := procPath(pid, "task/"+each.Name()) + "/"
		stat, _ := os.ReadFile(root + "stat")
		where, _ := os.ReadFile(root + "wchan")
		_, after, _ := strings.Cut(string(stat), ") ")
		b.WriteString(each.Name() + " state " + after[:min(1, len(after))] + " in " + string(where) + "\n")
	}
	return b.String()
}
