package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// stack is what a panic prints.
var stack = regexp.MustCompile(`panic:|goroutine \d+|\.go:\d+ \+0x|runtime error`)

// refuse runs a command that has to be refused: with this exit code, in a few
// whole lines that hold these words, without a secret, with no process started
// and with the records left as they were.
func (w *world) refuse(code int, args []string, says ...string) result {
	w.Helper()
	before, lived := w.records(), w.processes()
	r := w.run(args...)
	w.checkRefusal(r, code, says...)
	for path, sum := range before {
		if now := w.records(); now[path] != sum {
			w.Errorf("%s: %s has changed", r, path)
		}
	}
	for path := range w.records() {
		if _, was := before[path]; !was {
			w.Errorf("%s: it made %s", r, path)
		}
	}
	for pid, line := range w.processes() {
		if _, did := lived[pid]; !did {
			w.Errorf("%s: it started %d %s", r, pid, line)
		}
	}
	return r
}

// refusalLines is how many lines a refusal may have.
const refusalLines = 2

// checkRefusal looks at a refusal's words alone.
func (w *world) checkRefusal(r result, code int, says ...string) {
	w.Helper()
	text := strings.TrimSpace(r.err)
	if r.code != code {
		w.Errorf("%s\nwant exit code %d", r, code)
	}
	if lines := strings.Count(text, "\n") + 1; text == "" || lines > refusalLines {
		w.Errorf("%s\n%d lines, not one or two", r, lines)
	}
	if !strings.HasPrefix(text, "pool: ") {
		w.Errorf("%s\ndoes not begin with pool:", r)
	}
	if said := r.out + r.err; stack.MatchString(said) || strings.Contains(said, token) || strings.Contains(said, otherToken) {
		w.Errorf("%s\nshows a stack or a secret", r)
	}
	for _, each := range says {
		if !strings.Contains(text, each) {
			w.Errorf("%s\nsays nothing of %q", r, each)
		}
	}
}

// otherToken is one that the double does not accept.
const otherToken = "cog_e2e_77c2aa01d4b84f0e_another"

// records are the sums of what a pool must not lose, by path: all of the state
// folder but what is made anew at each start, and what up -d and workers said.
func (w *world) records() map[string]string {
	w.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(w.state, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(w.state, path)
		said := strings.HasPrefix(name, "logs/") || filepath.Base(name) == "worker.log" // workers go on
		if err != nil || d.IsDir() || name == "pool.lock" || name == "pool.sock" || said {
			return nil
		}
		sum := d.Type().String()
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			hash := sha256.Sum256(text)
			sum = hex.EncodeToString(hash[:])
		}
		sums[name] = sum
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return sums
}

// noState fails when a command that was refused has made a state folder.
func (w *world) noState() {
	w.Helper()
	if _, err := os.Lstat(w.state); err == nil {
		w.Errorf("%s was made", w.state)
	}
}

func (w *world) write(path, text string, mode fs.FileMode) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		w.Fatal(err)
	}
	// The mask must not choose the test's mode.
	if err := os.Chmod(path, mode); err != nil {
		w.Fatal(err)
	}
}

// withoutFile lets the environment alone configure the pool, which is then
// named pool.
func (w *world) withoutFile() {
	w.Helper()
	if err := os.Remove(w.file); err != nil {
		w.Fatal(err)
	}
	w.env["POOL_CONFIG"] = ""
	w.state = filepath.Join(w.dir, "s", "pool", "pool")
}
