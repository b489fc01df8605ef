package local

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers/launch"
)

// tick is one unit of a process's times; USER_HZ is 100 on every Linux.
const tick = time.Second / 100

var pageSize = int64(os.Getpagesize())

// readTable reads the processes of this machine.
func readTable() (table, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	t := make(table, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			t[pid] = p
		}
	}
	return t, nil
}

// readProc reads one process; not there is no error.
func readProc(pid int) (proc, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, false
	}
	p, ok := parseStat(data)
	return p, ok && p.pid == pid
}

// parseStat reads /proc/PID/stat. A process chooses its own name, so only what
// follows the last parenthesis counts.
func parseStat(data []byte) (proc, bool) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || end < open {
		return proc{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data[:open])))
	f := strings.Fields(string(data[end+1:]))
	if err != nil || len(f) < 22 {
		return proc{}, false
	}
	number := func(field int) int64 { // counted as in proc(5), where the state is 3
		n, _ := strconv.ParseInt(f[field-3], 10, 64)
		return n
	}
	start, err := strconv.ParseUint(f[22-3], 10, 64)
	return proc{
		pid: pid, ppid: int(number(4)), group: int(number(5)), sid: int(number(6)), start: start,
		zombie: f[0] == "Z" || f[0] == "X", stopped: f[0] == "T" || f[0] == "t", waits: f[0] == "D",
		cpu:    time.Duration(number(14)+number(15)+number(16)+number(17)) * tick,
		memory: number(24) * pageSize,
	}, err == nil
}

// environHas reports whether a process was started with NAME=VALUE.
func environHas(pid int, marker string) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(data) == 0 {
		return false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if string(entry) == marker {
			return true
		}
	}
	return false
}

// markerOf is the launch marker that a process was started with, empty when
// it has none.
func markerOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(launch.Marker+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// ownedBy reports whether a process may be a user's, at the cost of one look;
// uidOf is exact. What cannot be dumped shows root as its owner, and its
// environment to nobody else.
func ownedBy(pid, uid int) bool {
	var stat unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &stat) == nil && int(stat.Uid) == uid
}

// uidOf is the real user of a process, -1 when it is not there.
func uidOf(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if uid, err := strconv.Atoi(f[0]); err == nil {
					return uid
				}
			}
		}
	}
	return -1
}

// namespaceOf names the pid namespace of a process; empty when not known.
func namespaceOf(pid int) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return link
}

// bootID changes with every boot of this machine.
func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// signalProcess signals this very process: between the look at its start time
// and the signal a descriptor holds it, so that its number cannot pass on.
func signalProcess(who id, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(who.pid, 0)
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or a filter
		if p, ok := readProc(who.pid); !ok || p.id() != who {
			return unix.ESRCH
		}
		return unix.Kill(who.pid, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if p, ok := readProc(who.pid); !ok || p.id() != who {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// markersReadable says that environHas can tell.
const markersReadable = true
