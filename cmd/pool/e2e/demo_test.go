package e2e

import (
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"
)

var (
	demoSum = regexp.MustCompile(`demo: (\d+) sessions served to their end, (\d+) restarts after (\d+) kills`)
	demoRow = regexp.MustCompile(`(?m)^demo-(\d)\s+(\d+)\s+(\d+)\s+(.+?)\s*$`)
)

func TestDemoServesUnderChaosAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	r := w.must("demo", "--for", "20s", "--workers", "4", "--chaos")
	sum := demoSum.FindStringSubmatch(r.out)
	rows := demoRow.FindAllStringSubmatch(r.out, -1)
	if sum == nil || len(rows) < 4 {
		t.Fatalf("no summary: %s", r)
	}
	kills, restarts := number(sum[3]), 0
	if number(sum[1]) < 8 || kills == 0 {
		t.Errorf("%s", sum[0])
	}
	for _, row := range rows[len(rows)-4:] {
		if number(row[2]) == 0 {
			t.Errorf("demo-%s served no session: %s", row[1], r)
		}
		restarts += number(row[3])
		if explained := regexp.MustCompile(`signal 9`).MatchString(row[4]); number(row[3]) > 0 && !explained {
			t.Errorf("demo-%s restarted %s times, but its last exit is %q", row[1], row[3], row[4])
		}
	}
	// The last kill may come too late for its restart to be counted.
	if restarts != number(sum[2]) || restarts > kills || restarts < kills-1 {
		t.Errorf("%d restarts in the rows after %d kills: %s", restarts, kills, sum[0])
	}
	w.checkDemoGone()
}

func TestDemoInterruptedEndsWithASummary(t *testing.T) {
	w := newWorld(t)
	p := w.start("demo", "--workers", "2")
	w.eventually("a session is claimed", func() bool { return regexp.MustCompile(`claimed`).MatchString(p.out.String()) })
	p.signal(syscall.SIGINT)
	r := p.wait(time.Minute)
	if r.code != 0 || demoSum.FindString(r.out) == "" {
		t.Error(r)
	}
	w.checkDemoGone()
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// checkDemoGone fails for a file or a process of the demo; only the world's
// own double may run.
func (w *world) checkDemoGone() {
	w.Helper()
	for _, dir := range []string{w.tmp, w.home, w.dir + "/s"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range entries {
			w.Errorf("the demo left %s/%s", dir, e.Name())
		}
	}
	for pid, line := range w.processes() {
		if pid != w.api.cmd.Process.Pid {
			w.Errorf("the demo left process %d: %s", pid, line)
		}
	}
}
