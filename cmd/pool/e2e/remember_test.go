package e2e

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/pool/control"
)

// Cron starts in another folder and names no file: the only pool there is
// starts as it last did.
func TestAKeepAliveUsesTheConfigurationOfTheLastStart(t *testing.T) {
	w := newWorld(t)
	w.must("up", "-d")
	before := pidsOf(w.status())
	w.killSupervisor()
	bare := []string{"HOME=" + w.home, "XDG_STATE_HOME=" + filepath.Join(w.dir, "s"), "DEVIN_OUTPOSTS_TOKEN=" + token, "TMPDIR=" + w.tmp, markEnv + "=" + w.dir}
	if r := w.bare(bare, "up", "-d"); r.code != 0 {
		t.Fatalf("%s\n%s", r, w.report())
	}
	p := w.eventuallyPool("all found again", func(p control.Pool) bool { return p.Running == 4 })
	if diff := cmp.Diff(before, pidsOf(p)); diff != "" {
		t.Errorf("workers: %s", diff)
	}
	if p.ConfigFile != w.file {
		t.Errorf("runs from %q, want %q", p.ConfigFile, w.file)
	}
}

func pidsOf(p control.Pool) map[string]int {
	pids := map[string]int{}
	for _, w := range p.Workers {
		pids[w.Name] = w.PID
	}
	return pids
}
