package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/local"
	"github.com/outpostpool/pool/providers/providertest"
)

func TestConformanceWithoutWalls(t *testing.T) { conform(t, "none") }

func TestConformanceWithWalls(t *testing.T) { conform(t, "bwrap") }

func conform(t *testing.T, isolation string) {
	if _, err := local.New(local.Options{Dir: t.TempDir(), Isolation: isolation}); providers.Is(err, providers.Invalid) {
		t.Skip(err)
	}
	providertest.Run(t, providertest.Factory{New: func(t providertest.T) providertest.World {
		parent, err := os.MkdirTemp("", "local")
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { os.RemoveAll(parent) })
		dir := filepath.Join(parent, "sandboxes")
		open := func() providers.Provider {
			p, err := local.New(local.Options{Dir: dir, Isolation: isolation})
			if err != nil {
				t.Fatalf("%v", err)
			}
			return p
		}
		return providertest.World{Provider: open(), Reopen: open}
	}})
}
