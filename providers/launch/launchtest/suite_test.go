package launchtest_test

import (
	"testing"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch/launchtest"
	"github.com/outpostpool/pool/providers/providertest"
)

// The whole suite, over nothing but Exec, under each shell.
func TestConformance(t *testing.T) {
	for _, shell := range launchtest.Shells {
		t.Run(shell, func(t *testing.T) {
			path, err := launchtest.ShellPath(t.TempDir(), shell)
			if err != nil {
				t.Fatal(err)
			}
			providertest.Run(t, providertest.Factory{
				Path: path,
				New: func(tt providertest.T) providertest.World {
					dir := t.TempDir()
					open := func() providers.Provider { return &launchtest.Provider{Dir: dir, Path: path} }
					return providertest.World{Provider: open(), Reopen: open}
				},
			})
		})
	}
}
