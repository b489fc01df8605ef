// Package providertest is the conformance suite of the provider contract:
// every promise of design §6 that a provider is part of is a sub-test with a
// name that says it. A provider's own test file is its factory and
//
//	providertest.Run(t, providertest.Factory{New: …})
//
// The suite looks at sandboxes only through the contract, so that walls and
// distance make no difference, and needs in them what the launch protocol
// needs: a POSIX shell with the usual small tools, or BusyBox.
package providertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outpostpool/pool/providers"
)

// T is what the suite needs of a test. A recorder can stand in, to show that
// the suite notices a broken promise.
type T interface {
	rapid.TB
	Cleanup(func())
	Run(name string, f func(T)) bool
}

// Factory makes what the suite tests.
type Factory struct {
	// New makes a provider in an empty world of its own and registers the
	// world's end with t.Cleanup. Called once per sub-test.
	New func(t T) World
	// Path is the PATH in the sandboxes; the usual system folders when empty.
	Path string
	// Spec completes a spec with what the provider cannot do without, such as
	// an image. May be nil.
	Spec func(providers.Spec) providers.Spec
	// Patience is how long anything may take; 30 s when zero.
	Patience time.Duration
}

// World is one provider and what it keeps its sandboxes in.
type World struct {
	Provider providers.Provider
	// Reopen returns a new instance over the same world, as after a crash of
	// the program: it knows nothing but what the world tells it.
	Reopen func() providers.Provider
}

// Run runs the whole suite, its sub-tests in parallel.
func Run(t *testing.T, f Factory) { Check(parallel{t}, f) }

// Check runs the whole suite on any T.
func Check(t T, f Factory) {
	if f.Path == "" {
		f.Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	if f.Patience == 0 {
		f.Patience = 30 * time.Second
	}
	for _, c := range cases {
		t.Run(c.name, func(t T) {
			// A hung call fails its own sub-test, not the whole run.
			ctx, cancel := context.WithTimeout(context.Background(), 4*f.Patience)
			t.Cleanup(cancel)
			c.run(&bench{T: t, f: f, world: f.New(t), ctx: ctx, run: rand.Text()[:12]})
		})
	}
}

// testCase is one promise.
type testCase struct {
	name string
	run  func(b *bench)
}

var cases = concat(
	createCases, listCases, execCases, terminalCases, launchCases, exitCases,
	outputCases, signalCases, removeCases, epochCases, errorCases,
)

func concat(groups ...[]testCase) []testCase {
	var all []testCase
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// parallel runs sub-tests of a *testing.T beside each other.
type parallel struct{ *testing.T }

func (p parallel) Run(name string, f func(T)) bool {
	return p.T.Run(name, func(t *testing.T) {
		t.Parallel()
		f(serial{t})
	})
}

type serial struct{ *testing.T }

func (s serial) Run(name string, f func(T)) bool {
	return s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

// spec is the sandbox of a slot and generation, in a pool of the suite's own.
func (b *bench) spec(slot, generation int) providers.Spec {
	s := providers.Spec{
		Name: fmt.Sprintf("suite-abcd2345-%d-g%d", slot, generation),
		Labels: providers.Labels{
			Pool: "suite", UID: "abcd2345", Slot: slot, Generation: generation, ConfigHash: "c0ffee",
		},
	}
	if b.f.Spec != nil {
		s = b.f.Spec(s)
	}
	return s
}
