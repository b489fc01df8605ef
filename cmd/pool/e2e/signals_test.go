package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// A signal that is ignored stays ignored over exec: Ctrl-C and broken pipes in
// a session's shell would then do nothing.
func TestWorkersStartWithNoSignalIgnored(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	w.must("up", "-d")
	got := worker(w.status(), "web-0")
	text, err := os.ReadFile(procPath(got.PID, "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), "SigIgn:\t")
		if !found {
			continue
		}
		// 32 and 33 are the C library's own; a make around the test sets them.
		if mask, err := strconv.ParseUint(text, 16, 64); err != nil || mask&(1<<31-1) != 0 {
			t.Errorf("the worker ignores the signals of mask %s", text)
		}
	}
}
