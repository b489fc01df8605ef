package e2e

import (
	"os"
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
		if mask, found := strings.CutPrefix(line, "SigIgn:\t"); found && strings.Trim(mask, "0\n") != "" {
			t.Errorf("the worker ignores the signals of mask %s", mask)
		}
	}
}
