package pool

import (
	"context"
	"sync"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker"
)

// flagProbe asks once what the CLI calls the outpost's flag. All sandboxes of
// a pool have one image, so one answer serves all; a failure is asked again.
type flagProbe struct {
	mu    sync.Mutex
	known bool
	flags worker.Flags
}

// get holds no lock while it asks: a sandbox that hangs delays no other slot.
func (f *flagProbe) get(ctx context.Context, sandbox providers.Sandbox, command []string, env map[string]string) (worker.Flags, error) {
	f.mu.Lock()
	flags, known := f.flags, f.known
	f.mu.Unlock()
	if known {
		return flags, nil
	}
	flags, err := worker.ProbeFlag(ctx, sandbox, command, env)
	if err != nil {
		return worker.Flags{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flags, f.known = flags, true
	return flags, nil
}
