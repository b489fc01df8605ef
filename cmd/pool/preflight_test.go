package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker/outpost"
)

func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	for _, each := range []string{"empty", "plain", "folder/devin", "links", "good"} {
		if err := os.MkdirAll(at(each), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{at("plain", "devin"): 0o600, at("good", "devin"): 0o700} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../gone", at("links", "devin")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ program, path, found, dangling string }{
		{"devin", at("empty"), "", ""},
		{"devin", at("plain") + ":" + at("folder"), "", ""},
		{"devin", at("links"), "", at("links", "devin")},
		{"devin", at("links") + ":" + at("plain") + ":" + at("good"), at("good", "devin"), ""},
		{at("good", "devin"), "", at("good", "devin"), ""},
		{at("links", "devin"), at("good"), "", at("links", "devin")},
		{at("none"), at("good"), "", ""},
	} {
		found, dangling := lookUp(c.program, c.path)
		if found != c.found || dangling != c.dangling {
			t.Errorf("lookUp(%s, %s) = %q, %q; want %q, %q", c.program, c.path, found, dangling, c.found, c.dangling)
		}
	}
}

func TestPreflightRefusesFailuresAndNotesWarnings(t *testing.T) {
	var p preflight
	if err := p.refused(); err != nil {
		t.Errorf("nothing found, yet %v", err)
	}
	p.findings = []providers.Finding{
		{Name: "token", Status: providers.OK, Detail: "fine"},
		{Name: "isolation", Status: providers.Warn, Detail: "no walls", Hint: "install bubblewrap"},
	}
	if err := p.refused(); err != nil {
		t.Errorf("a warning refuses: %v", err)
	}
	if notes := p.notes(); len(notes) != 1 || notes[0] != "isolation: no walls; install bubblewrap" {
		t.Errorf("notes %q", notes)
	}
	p.findings = append(p.findings,
		providers.Finding{Name: "git", Status: providers.Fail, Detail: "no git", Hint: "install git"},
		providers.Finding{Name: "shell", Status: providers.Fail, Detail: "no shell"})
	err := p.refused()
	if err == nil || err.Error() != "nothing was started: no git; install git\nno shell" || exitCodeOf(err) != exitFailure {
		t.Errorf("refused: %v", err)
	}
}

func TestPlatformAndSize(t *testing.T) {
	for platform, fails := range map[string]bool{"": false, platforms["linux"]: platforms["linux"] != here(), "windows": true} {
		var p preflight
		p.checkPlatform(outpost.Outpost{Name: "web", Platform: platform})
		if failed := p.refused() != nil; failed != fails {
			t.Errorf("platform %q: refused %v, want %v", platform, failed, fails)
		}
	}
	for workers, warns := range map[int]int{1: 0, manyCoordinators - 1: 0, manyCoordinators: 1} {
		var p preflight
		p.checkSize(workers)
		if got := len(p.notes()); got != warns {
			t.Errorf("%d workers: %d warnings, want %d", workers, got, warns)
		}
	}
}

// here is Devin's word for this machine, as an outpost without a platform
// shows it.
func here() string {
	var p preflight
	p.checkPlatform(outpost.Outpost{})
	return p.findings[0].Detail
}

func TestMakeStateDirIsPrivateAndLeavesNoProbe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeStateDir(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "logs" {
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeStateDir(filepath.Join(dir, "file", "below")); err == nil || !strings.Contains(err.Error(), "state_dir") {
		t.Errorf("a folder below a file: %v", err)
	}
}
