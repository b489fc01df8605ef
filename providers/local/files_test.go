package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outpostpool/pool/providers"
)

var (
	_ providers.Files     = (*Sandbox)(nil)
	_ providers.Sizer     = (*Sandbox)(nil)
	_ providers.Epocher   = (*Sandbox)(nil)
	_ providers.Discarder = (*Process)(nil)
	_ providers.Backlog   = (*Process)(nil)
)

func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) {
		ctx := testContext(t)
		s := create(t, p, spec(0, 1))
		info, _ := s.Info(ctx)
		outside := filepath.Join(t.TempDir(), "outside")
		if err := os.WriteFile(outside, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, s, "ln -s /etc/passwd passwd; ln -s "+outside+" out; ln -s ../.. up; ln -s repos inner; mkfifo pipe")
		data := bytes.Repeat([]byte("a\x00\xff"), 100000)
		if err := s.WriteFile(ctx, info.Workspace+"/inner/file", 0o640, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		r, err := s.ReadFile(ctx, info.Workspace+"/repos/file", 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, data[3:]) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if mode, _ := run(t, s, "stat -c %a repos/file"); mode != "640\n" {
			t.Errorf("mode %q", mode)
		}
		for _, name := range []string{"passwd", "out", "up/../meta.json", "up/x", "pipe", "repos", "../x", "", ".home/../../x"} {
			if r, err := s.ReadFile(ctx, info.Workspace+"/"+name, 0); !providers.Is(err, providers.Invalid) && !providers.Is(err, providers.NotFound) {
				t.Errorf("read %q: %v", name, err)
				if err == nil {
					r.Close()
				}
			}
		}
		if err := s.WriteFile(ctx, info.Workspace+"/out", 0o600, strings.NewReader("mine")); err != nil {
			t.Errorf("a link is replaced: %v", err)
		}
		if err := s.WriteFile(ctx, info.Workspace+"/up/x", 0o600, strings.NewReader("mine")); !providers.Is(err, providers.Invalid) {
			t.Errorf("a folder outside: %v", err)
		}
		if got, _ := os.ReadFile(outside); string(got) != "precious" || fileText(s, "out") != "mine" {
			t.Errorf("%q %q", got, fileText(s, "out"))
		}
		if _, err := s.ReadFile(ctx, "/etc/passwd", 0); !providers.Is(err, providers.Invalid) {
			t.Errorf("outside: %v", err)
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := s.WriteFile(over, info.Workspace+"/never", 0o600, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if text, _ := run(t, s, "ls -A . repos"); strings.Contains(text, ".pool-") || strings.Contains(text, "never") {
			t.Errorf("%q", text)
		}
	})
}
