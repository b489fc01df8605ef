//go:build !linux

package local

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// readTable reads the processes of this machine from the kernel. What the
// kernel keeps from us here is the consumed time and the environment, so
// that Usage is not known and no marker is found.
func readTable() (table, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	t := make(table, len(all))
	for i := range all {
		p := fromKernel(&all[i])
		t[p.pid] = p
	}
	return t, nil
}

func readProc(pid int) (proc, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return proc{}, false
	}
	return fromKernel(k), true
}

// The kernel's words for a process's state (sys/proc.h).
const (
	stateStopped = 4
	stateZombie  = 5
)

func fromKernel(k *unix.KinfoProc) proc {
	pid := int(k.Proc.P_pid)
	sid, err := unix.Getsid(pid)
	if err != nil {
		sid = 0
	}
	start := k.Proc.P_starttime
	return proc{
		pid: pid, ppid: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid), sid: sid,
		start:  uint64(start.Sec)*uint64(time.Second/time.Microsecond) + uint64(start.Usec),
		zombie: k.Proc.P_stat == stateZombie, stopped: k.Proc.P_stat == stateStopped,
		cpu: -1, memory: -1,
	}
}

func environHas(int, string) bool { return false }

func markerOf(int) string { return "" }

func ownedBy(pid, uid int) bool { return uidOf(pid) == uid }

func uidOf(pid int) int {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return -1
	}
	return int(k.Eproc.Pcred.P_ruid)
}

func namespaceOf(int) string { return "" }

// bootID is the time of the boot, which the kernel tells to the microsecond.
func bootID() string {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", boot.Sec, boot.Usec)
}

func signalProcess(who id, sig unix.Signal) error {
	if p, ok := readProc(who.pid); !ok || p.id() != who {
		return unix.ESRCH
	}
	return unix.Kill(who.pid, sig)
}

// markersReadable says that environHas cannot tell here.
const markersReadable = false
