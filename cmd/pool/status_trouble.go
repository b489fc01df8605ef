package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

// workerTroubles is one line for each worker that needs a look: what it is, why,
// what it waits for, and what to do. Healthy workers have none.
func workerTroubles(p control.Pool) (lines []string) {
	for _, w := range p.Workers {
		if line := trouble(w, p.Now); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func trouble(w control.Worker, now time.Time) string {
	inTrouble := w.State == "held" || w.State == "backoff" || w.Health == control.Broken
	if !inTrouble && len(w.Marks) == 0 && w.Waits == "" {
		return ""
	}
	var parts []string
	if inTrouble || w.Waits != "" {
		parts = append(parts, withReason(w.State, w.Reason))
	}
	for _, m := range w.Marks {
		parts = append(parts, withReason(m.Name, m.Reason))
	}
	if w.Waits != "" {
		parts = append(parts, "waits for "+clean(strings.TrimPrefix(w.Waits, "waits for ")))
	}
	if w.NextStart.After(now) {
		parts = append(parts, "next start in "+age(w.NextStart.Sub(now)))
	}
	line := fmt.Sprintf("%s %s", symbol(w.Health), styled(bold, clean(w.Name))+" "+strings.Join(parts, "; "))
	if hint := whatToDo(w); hint != "" {
		line += "\n    " + hint
	}
	return line
}

func withReason(name, reason string) string {
	if reason == "" {
		return clean(name)
	}
	return clean(name) + ": " + clean(reason)
}

// symbol tells what needs a person from what only takes its time.
func symbol(h control.Health) string {
	if h == control.Broken {
		return styled(red, "!")
	}
	return styled(yellow, "·")
}

// whatToDo is the next step for the gravest of a worker's troubles.
func whatToDo(w control.Worker) string {
	marks := map[string]bool{}
	for _, m := range w.Marks {
		marks[m.Name] = true
	}
	name := clean(w.Name)
	switch {
	case marks["unreachable"]:
		return fmt.Sprintf("it is left alone until its sandbox answers; if that is surely gone: pool restart --force %s", name)
	case w.State == "held":
		return fmt.Sprintf("it is tried again slowly; once the cause is gone: pool restart %s", name)
	case marks["crash-looping"]:
		return fmt.Sprintf("it is still tried at the longest delay; look at: pool logs %s · pool exec %s -- sh", name, name)
	case marks["deaf"]:
		return fmt.Sprintf("sessions wait and it takes none; look at: pool logs %s", name)
	case marks["unsaved"]:
		return "its workspace is newer than its last snapshot; pool events says why that failed"
	case w.State == "draining" && w.Goal == "retire":
		return fmt.Sprintf("keep it with a larger pool scale · end it now with: pool drain --now %s", name)
	case w.State == "draining":
		return fmt.Sprintf("take it back with: pool undrain %s · end it now with: pool drain --now %s", name, name)
	}
	return ""
}
