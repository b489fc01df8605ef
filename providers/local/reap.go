package local

import "golang.org/x/sys/unix"

// Keepers are children of the program that launched them. Waiting for each
// would cost a thread, so they are reaped when somebody looks: until then the
// kernel keeps their number for them.

func (p *Provider) adopt(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.children[pid] = true
}

// reap takes the keeper of a launch from the kernel if it has ended.
func (p *Provider) reap(l *launched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reapOne(l.Keeper.PID)
}

func (p *Provider) reapAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.children {
		p.reapOne(pid)
	}
}

func (p *Provider) reapOne(pid int) {
	if !p.children[pid] {
		return
	}
	var status unix.WaitStatus
	got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
	if got == pid || err == unix.ECHILD {
		delete(p.children, pid)
	}
}
