package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// launched is launch.json: what we launched last. Without walls a session can
// write it, as it can worker.pid. So what this program launched itself is
// believed from memory, and anything read from a file is checked against the
// process before it is signalled.
type launched struct {
	LaunchID  string        `json:"launch_id"`
	Boot      string        `json:"boot_id"`
	Worker    ident         `json:"worker"`
	Keeper    ident         `json:"keeper"`
	Started   time.Time     `json:"started"`
	Walls     bool          `json:"walls"`         // the worker is bubblewrap, and what we want is inside
	OOMKills  int64         `json:"oom_kills"`     // of the cgroup, before the launch
	CPUBefore time.Duration `json:"cpu_before"`    // of the cgroup, before the launch
	Lost      time.Time     `json:"lost,omitzero"` // when we saw that it ended without a code
	believed  bool          // from memory, not from a file
	child     bool          // the keeper is a child of this program, to be reaped
}

type ident struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

func (l *launched) worker() id { return id{l.Worker.PID, l.Worker.Start} }
func (l *launched) keeper() id { return id{l.Keeper.PID, l.Keeper.Start} }

// fromPIDFile takes over what the script wrote.
func (s *Sandbox) fromPIDFile(f launch.PID) *launched {
	l := &launched{LaunchID: f.LaunchID, Boot: s.p.boot, Started: f.Started, Walls: s.p.walls != nil}
	l.Worker, l.Keeper = fromIdent(f.Worker), fromIdent(f.Keeper)
	return l
}

// fromIdent looks the start time up where the script could not.
func fromIdent(i launch.Ident) ident {
	start, err := strconv.ParseUint(i.Start, 10, 64)
	if err != nil {
		if p, ok := readProc(i.PID); ok {
			start = p.start
		}
	}
	return ident{i.PID, start}
}

// current tells what was launched last in this incarnation, nil when nothing.
func (s *Sandbox) current() (*launched, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stored launched
	switch err := fileError("read "+launchFile, readJSON(s.dir, launchFile, &stored)); {
	case err == nil && s.last != nil && s.last.LaunchID == stored.LaunchID:
		return s.last, nil
	case err != nil && providers.ClassOf(err) == providers.Transient:
		return nil, err
	case err != nil && s.last != nil: // a session spoilt the file
		return s.last, nil
	}
	data, err := readSmall(s.run, launch.PIDFile)
	if err != nil {
		if err := fileError("read "+launch.PIDFile, err); providers.Is(err, providers.Transient) {
			return nil, err
		}
		return s.remember(&stored), nil
	}
	file, err := launch.ParsePID(data)
	if err != nil || file.LaunchID == stored.LaunchID {
		return s.remember(&stored), nil
	}
	// We died between the start and our own record of it.
	if s.p.boot != "" && file.Boot != s.p.boot {
		return nil, nil
	}
	return s.remember(s.fromPIDFile(file)), nil
}

// remember keeps a record of this boot.
func (s *Sandbox) remember(l *launched) *launched {
	if l.LaunchID == "" || l.Boot != s.p.boot {
		return nil
	}
	l.believed = s.p.walls != nil && l.Walls
	s.last = l
	return l
}

// roots finds where the tree of a launch begins in a table.
func (s *Sandbox) roots(t table, l *launched) roots {
	r := roots{worker: l.worker(), keeper: l.keeper()}
	if t.alive(r.worker) && !s.proved(t[l.Worker.PID], l) {
		r.worker = id{} // not ours, whatever a file says
	}
	for pid, p := range t {
		if !p.zombie && s.carries(p, l) {
			r.also = append(r.also, pid)
		}
	}
	r.also = append(r.also, s.p.groups.members(s.group())...)
	if l.Walls {
		r.also = append(r.also, sameNamespace(t, r)...)
	}
	return r
}

// proved reports whether the recorded worker, which lives, is ours.
func (s *Sandbox) proved(p proc, l *launched) bool {
	if uidOf(l.Worker.PID) != s.p.uid {
		return false
	}
	return l.believed || !markersReadable || s.carries(p, l)
}

// carries reports whether a process was started in this launch: it has the
// marker. Launch ids are meant to be unique; should another sandbox have used
// this one, what a process has open tells them apart.
func (s *Sandbox) carries(p proc, l *launched) bool {
	return environHas(p.pid, launch.Marker+"="+l.LaunchID) && !s.elsewhere(p.pid)
}

// elsewhere reports whether a process writes to another sandbox's log or is in
// another slot's workspace.
func (s *Sandbox) elsewhere(pid int) bool {
	return elsewhere(pid, s.p.dir+"/"+s.meta.Name+"/"+runDir+"/"+launch.LogFile, s.p.hostWorkspace(s.meta.Labels))
}

func elsewhere(pid int, log, workspace string) bool {
	for _, stream := range []string{"fd/1", "fd/2", "fd/0"} {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, stream))
		link = strings.TrimSuffix(link, " (deleted)")
		if strings.HasSuffix(link, "/"+runDir+"/"+launch.LogFile) {
			return link != log
		}
	}
	cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return strings.Contains(cwd, "/"+workspacesDir+"/") && !within(cwd, workspace)
}

// sameNamespace finds what shares a pid namespace with the tree: walls give
// each launch one of its own, and nothing leaves it.
func sameNamespace(t table, r roots) []int {
	ours := namespaceOf(os.Getpid())
	inside := map[string]bool{}
	for _, p := range members(t, r) {
		if space := namespaceOf(p.pid); space != "" && space != ours {
			inside[space] = true
		}
	}
	var found []int
	if len(inside) == 0 {
		return nil
	}
	for pid := range t {
		if inside[namespaceOf(pid)] {
			found = append(found, pid)
		}
	}
	return found
}
