package e2e

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

// outpostID is the id of the double's outpost of that name.
func (w *world) outpostID(name string) string {
	w.Helper()
	for line := range strings.Lines(w.must("outpost", "ls", "--api-url", w.api.URL).out) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			return words[1]
		}
	}
	w.Fatalf("there is no outpost %s", name)
	return ""
}

// checkInit looks at what init wrote.
func (w *world) checkInit() string {
	w.Helper()
	w.must("config", "check")
	text, err := os.ReadFile(w.file)
	if err != nil {
		w.Fatal(err)
	}
	if info, err := os.Stat(w.file); err != nil || info.Mode().Perm() != 0o600 {
		w.Errorf("%v, %v", info.Mode(), err)
	}
	if strings.Count(string(text), "#") < 5 || strings.Contains(string(text), token) {
		w.Errorf("few comments, or the token:\n%s", text)
	}
	return string(text)
}

var activeID = regexp.MustCompile(`(?m)^id = "([^"]+)"`)

func TestInitWritesAFileThatLoadsAndOverwritesNothing(t *testing.T) {
	w := newWorld(t)
	w.withoutFile()
	w.env["DEVIN_API_URL"] = w.api.URL
	r := w.must("init", "--name", "team", "-n", "3")
	if !strings.Contains(r.err, "pool doctor") || strings.Contains(r.err, "Which outpost") {
		t.Errorf("%s\nwant the next step and no question", r)
	}
	text := w.checkInit()
	if got := activeID.FindStringSubmatch(text); got == nil || got[1] != w.outpostID("e2e") {
		t.Errorf("the only outpost is not chosen:\n%s", text)
	}
	for _, want := range []string{`name = "team"`, "workers = 3", w.api.URL} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	w.refuse(1, []string{"init"}, "pool.toml", "left as it is")
	if again, err := os.ReadFile(w.file); err != nil || string(again) != text {
		t.Errorf("init has changed the file: %v", err)
	}
}

func TestInitWithoutAnAccountStillWritesAFile(t *testing.T) {
	w := newWorld(t)
	w.withoutFile()
	w.env["DEVIN_OUTPOSTS_TOKEN"] = ""
	r := w.must("init")
	if !strings.Contains(r.err, "no token") {
		t.Errorf("%s\nsays nothing of the token", r)
	}
	w.checkInit()
	w.noState()
}

func TestInitAsksOnATerminalOnly(t *testing.T) {
	w := newWorld(t)
	w.withoutFile()
	w.env["DEVIN_API_URL"] = w.api.URL
	if _, err := w.api.remote.AddOutpost(context.Background(), outposttest.Outpost{Name: "second", Platform: "linux"}); err != nil {
		t.Fatal(err)
	}
	id := w.outpostID("second")
	if r := w.must("init"); strings.Contains(r.err, "Which outpost") {
		t.Errorf("%s\nasked where nobody can answer", r)
	}
	if text := w.checkInit(); activeID.MatchString(text) || !strings.Contains(text, `# id = "`+id+`"`) {
		t.Errorf("want both outposts as comments:\n%s", text)
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	shell := w.terminal(120, 30)
	shell.line("clear; " + w.binary + " init")
	shell.shows("Which outpost")
	number := regexp.MustCompile(`(?m)^ *(\d+)  second`).FindStringSubmatch(shell.screen())
	if number == nil {
		t.Fatalf("the second outpost is not offered:\n%s", shell.screen())
	}
	shell.line(number[1])
	shell.shows("wrote pool.toml")
	if got := activeID.FindStringSubmatch(w.checkInit()); got == nil || got[1] != id {
		t.Errorf("%v is written, not %s", got, id)
	}
}
