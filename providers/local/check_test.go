package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outpostpool/pool/providers"
)

func TestCheck(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		names := ""
		for _, f := range p.Check(testContext(t), true) {
			names += f.Name + " "
			if f.Status == providers.Fail || f.Detail == "" || (f.Status != providers.OK && f.Hint == "") {
				t.Errorf("%+v", f)
			}
			if f.Name == "isolation" && (f.Status == providers.OK) != (p.isolation.Mode == "bwrap") {
				t.Errorf("%+v", f)
			}
		}
		if names != "isolation shell git cgroup disk sandbox " {
			t.Errorf("%q", names)
		}
		if infos, err := p.List(testContext(t), "doctor"); err != nil || len(infos) != 0 {
			t.Errorf("the trial left %+v %v", infos, err)
		}
	})
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	bin := t.TempDir()
	p, err := New(Options{Dir: filepath.Join(t.TempDir(), "s"), Isolation: "none", Path: bin, Shell: filepath.Join(bin, "sh")})
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]providers.FindingStatus{}
	for _, f := range p.Check(testContext(t), true) {
		status[f.Name] = f.Status
	}
	if status["shell"] != providers.Fail || status["git"] != providers.Fail || status["sandbox"] != providers.Fail {
		t.Errorf("%v", status)
	}
	if err := os.Symlink("/bin/sh", filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	if f := p.checkTools(); f.Status != providers.Warn || !strings.Contains(f.Detail, "setsid") {
		t.Errorf("%+v", f)
	}
	if infos, err := p.List(testContext(t), "doctor"); err != nil || len(infos) != 0 {
		t.Errorf("the failed trial left %+v %v", infos, err)
	}
}
