package local

import (
	"context"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Usage tells what the worker's whole tree consumes: from its cgroup where it
// has one, else summed over its processes, where memory that they share counts
// for each. CPU never goes back within one launch. Disk is the size of the
// workspace as of the last walk: at most one walk runs at a time, no sooner
// than a minute after the one before and so seldom that it takes less than 2 %
// of the time; until the first has ended it is -1.
func (s *Sandbox) Usage(ctx context.Context) (providers.Usage, error) {
	op := "measure " + s.meta.Name
	if err := s.check(ctx, "measure"); err != nil {
		return providers.Usage{}, err
	}
	l, err := s.current()
	if err != nil {
		return providers.Usage{}, err
	}
	use := providers.Usage{At: time.Now().UTC(), Disk: s.diskUse(ctx)}
	if l == nil {
		return use, nil
	}
	cpu, memory := s.p.groups.usage(s.group())
	if cpu >= 0 {
		cpu -= l.CPUBefore
	}
	if cpu < 0 || memory < 0 {
		t, read, err := s.p.table.get()
		if err != nil {
			return providers.Usage{}, providers.Errorf(providers.Transient, op, "%w", err)
		}
		summedCPU, summedMemory := s.sum(t, l)
		if cpu < 0 {
			cpu, use.At = summedCPU, read.UTC()
		}
		if memory < 0 {
			memory = summedMemory
		}
	}
	use.CPU, use.Memory = s.neverBack(l.LaunchID, cpu), memory
	return use, nil
}

// sum adds up the tree as far as parents, sessions and groups tell it: reading
// each environment for the marker is too much for something asked so often.
func (s *Sandbox) sum(t table, l *launched) (cpu time.Duration, memory int64) {
	r := roots{worker: l.worker(), keeper: l.keeper(), also: s.p.groups.members(s.group())}
	for _, p := range members(t, r) {
		if p.cpu < 0 || p.memory < 0 {
			return -1, -1
		}
		cpu += p.cpu
		memory += p.memory
	}
	return cpu, memory
}

// neverBack keeps the consumed time of a launch from shrinking when a process
// ends that nobody of the tree waited for.
func (s *Sandbox) neverBack(launchID string, cpu time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cpu.launch != launchID {
		s.cpu = cpuMark{launch: launchID}
	}
	s.cpu.spent = max(s.cpu.spent, cpu)
	if cpu < 0 {
		return -1
	}
	return s.cpu.spent
}

const (
	diskEvery = time.Minute // between walks
	diskShare = 50          // a walk's time is at most a fiftieth of all
	diskWait  = 100 * time.Millisecond
)

// diskMark is the last walk over a workspace.
type diskMark struct {
	known   bool
	size    int64
	next    time.Time // no walk before
	walking chan struct{}
}

// diskUse returns the last size, and begins a walk when one is due; it waits a
// moment for that, since most workspaces are small.
func (s *Sandbox) diskUse(ctx context.Context) int64 {
	s.mu.Lock()
	if s.disk.walking == nil && !time.Now().Before(s.disk.next) {
		select {
		case s.p.walking <- struct{}{}:
			s.disk.walking = make(chan struct{})
			go s.walk(s.disk.walking)
		default: // another sandbox's turn
		}
	}
	walking := s.disk.walking
	s.mu.Unlock()
	if walking != nil {
		select {
		case <-walking:
		case <-ctx.Done():
		case <-time.After(diskWait):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.disk.known {
		return -1
	}
	return s.disk.size
}

func (s *Sandbox) walk(done chan struct{}) {
	began := time.Now()
	size, err := int64(0), error(nil)
	workspace, err := openDir(s.p.root, workspacesDir+"/"+slotKey(s.meta.Labels))
	if err == nil {
		size = diskSize(workspace, map[fileID]bool{})
		workspace.Close()
	}
	s.mu.Lock()
	s.disk.known = s.disk.known || err == nil
	if err == nil {
		s.disk.size = size
	}
	s.disk.next = time.Now().Add(max(diskEvery, diskShare*time.Since(began)))
	s.disk.walking = nil
	s.mu.Unlock()
	close(done)
	<-s.p.walking
}

type fileID struct{ device, inode uint64 }

// diskSize adds up the blocks below dir, following no link and counting a file
// with several names once. What vanishes meanwhile counts nothing.
func diskSize(dir *os.Root, seen map[fileID]bool) int64 {
	names, err := readNames(dir, ".")
	if err != nil {
		return 0
	}
	var size int64
	for _, name := range names {
		info, err := dir.Lstat(name)
		if err != nil {
			continue
		}
		size += blocks(info, seen)
		if !info.IsDir() {
			continue
		}
		if below, err := openDir(dir, name); err == nil {
			size += diskSize(below, seen)
			below.Close()
		}
	}
	return size
}

func blocks(info fs.FileInfo, seen map[fileID]bool) int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	if stat.Nlink > 1 && !info.IsDir() {
		who := fileID{uint64(stat.Dev), stat.Ino}
		if seen[who] {
			return 0
		}
		seen[who] = true
	}
	return stat.Blocks * 512
}
