// Package pool is the supervisor: it owns the slots, decides through package
// plan, records what it decided and has each slot's own goroutine do it.
package pool

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker"
	"github.com/outpostpool/pool/worker/logs"
	"github.com/outpostpool/pool/worker/outpost"
)

// Settings is all a supervisor needs to know. The command line makes it from
// the config; nothing in it is read from the environment later.
type Settings struct {
	Name       string // of the pool
	StateDir   string // absolute; 0700
	ConfigFile string // for display; empty when there is none
	Version    string

	Provider     providers.Provider
	ProviderKind string
	Notes        []string // what an operator should know, a line each

	Workers   int  // the config's size
	ScaleTo   *int // a size asked for at the start, as by scale; nil: none
	Policy    plan.Policy
	Image     string
	Resources providers.Resources

	Worker WorkerSettings
	Logs   logs.Settings // of every log; Dir and Name are filled in

	Outpost      outpost.Outpost
	APIURL       string
	Token        func(context.Context) (string, error)
	TokenSource  string // in words
	Fleet        *outpost.Client
	FleetAway    string // why Devin Cloud did not answer before the start; empty when it did
	PollInterval time.Duration
	DeafAfter    time.Duration

	Rand   func() float64 // draws from [0,1)
	Logger *slog.Logger
}

// WorkerSettings is how one worker is made ready and started.
type WorkerSettings struct {
	Command []string // with {placeholders}
	Args    []string
	Env     map[string]string
	// Secrets reads the secret variables anew, by name.
	Secrets    func(context.Context) (map[string]string, error)
	ChromePath string
	Display    string
	Network    worker.Network
	// Prepare is what a sandbox gets before its first worker; its environment
	// and git token are filled in each time.
	Prepare  worker.Preparation
	GitToken func(context.Context) (string, error) // nil: none
	// PrepareLimit bounds the whole preparation.
	PrepareLimit time.Duration
	// Path is PATH in the sandbox.
	Path string
}

// AcceptorID names a slot to Devin Cloud, over all its workers and sandboxes.
func AcceptorID(pool, uid string, slot int) string {
	return fmt.Sprintf("%s-%s-%d", pool, uid, slot)
}

// SandboxName names one generation of a slot to its provider.
func SandboxName(pool, uid string, slot, generation int) string {
	return fmt.Sprintf("%s-%s-%d-g%d", pool, uid, slot, generation)
}

// WorkerName is how people call a slot.
func WorkerName(pool string, slot int) string {
	return fmt.Sprintf("%s-%d", pool, slot)
}
