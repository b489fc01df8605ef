package launchtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// killTree kills a session leader's session, group and descendants, until a
// look finds none alive. Where there is no /proc it reaches the group.
func killTree(leader int) {
	for range 100 {
		_ = syscall.Kill(-leader, syscall.SIGKILL)
		tree := treeOf(leader)
		if len(tree) == 0 {
			return
		}
		for pid := range tree {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func treeOf(leader int) map[int]bool {
	type process struct{ pid, parent, session int }
	var all []process
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if err != nil || len(fields) < 4 || fields[0][0] == 'Z' {
			continue
		}
		number := func(b []byte) int { n, _ := strconv.Atoi(string(b)); return n }
		all = append(all, process{number([]byte(filepath.Base(filepath.Dir(file)))), number(fields[1]), number(fields[3])})
	}
	tree := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !tree[p.pid] && (p.pid == leader || p.session == leader || tree[p.parent]) {
				tree[p.pid], grown = true, true
			}
		}
	}
	return tree
}
