package local

import (
	"slices"
	"time"
)

// proc is one process of a table.
type proc struct {
	pid, ppid, sid int
	group          int    // process group
	start          uint64 // with the pid, one process for a whole boot
	zombie         bool
	stopped        bool
	waits          bool          // in the kernel, where no signal reaches it yet
	cpu            time.Duration // its own and its reaped children's
	memory         int64         // resident, bytes
}

// table is the processes of this machine at one moment, by pid.
type table map[int]proc

// id names one process for as long as the machine is up.
type id struct {
	pid   int
	start uint64
}

func (p proc) id() id { return id{p.pid, p.start} }

// alive reports whether the table has this very process, not one that got its
// number. A zombie is dead. Start 0 stands for "not known" where there is no
// /proc.
func (t table) alive(who id) bool {
	p, ok := t[who.pid]
	return ok && who.pid > 0 && !p.zombie && (who.start == 0 || p.start == who.start)
}

// roots are where a tree begins.
type roots struct {
	worker id    // the launched process, alive or not; leads a session of its own
	keeper id    // never a member, nor is anything in its session but the worker
	also   []int // carriers of the marker, members of the cgroup or of the pid namespace
}

// members gives the living processes of a tree: the worker, its session and
// group, what else was found, and all their descendants.
//
// A session outlives its leader, and while it lives its number is given to no
// new process. So with the worker dead its session still counts, unless the
// number is a living process again or the member is older than the worker.
func members(t table, r roots) []proc {
	children := map[int][]int{}
	for pid, p := range t {
		children[p.ppid] = append(children[p.ppid], pid)
	}
	seen := map[int]bool{}
	var add func(pid int)
	add = func(pid int) {
		p, ok := t[pid]
		if !ok || seen[pid] || outside(p, r) {
			return
		}
		seen[pid] = true
		for _, child := range children[pid] {
			add(child)
		}
	}
	if t.alive(r.worker) {
		add(r.worker.pid)
	}
	if ledBy(t, r.worker) {
		for pid, p := range t {
			if (p.sid == r.worker.pid || p.group == r.worker.pid) && p.start >= r.worker.start {
				add(pid)
			}
		}
	}
	for _, pid := range r.also {
		add(pid)
	}
	var all []proc
	for pid := range seen {
		if !t[pid].zombie {
			all = append(all, t[pid])
		}
	}
	slices.SortFunc(all, func(a, b proc) int { return a.pid - b.pid })
	return all
}

// outside reports what is in no tree: init, the keeper and its helpers.
func outside(p proc, r roots) bool {
	if p.pid <= 1 || p.id() == r.keeper {
		return true
	}
	return r.keeper.pid > 0 && p.sid == r.keeper.pid && p.pid != r.worker.pid
}

// ledBy reports whether a session with the worker's number is the worker's.
func ledBy(t table, worker id) bool {
	leader, ok := t[worker.pid]
	return worker.pid > 1 && (!ok || worker.start == 0 || leader.start == worker.start)
}

// wallKeepers are bubblewrap's own processes in a tree: the launched one, and
// its child that is the namespace's init. Ending or stopping them first would
// lose the worker's exit code and leave the worker alone, so that only KILL is
// for them.
func wallKeepers(t table, worker id) []int {
	if !t.alive(worker) {
		return nil
	}
	own := []int{worker.pid}
	for pid, p := range t {
		if p.ppid == worker.pid {
			own = append(own, pid)
		}
	}
	return own
}
