package local

import (
	"context"

	"github.com/outpostpool/pool/providers"
)

func init() {
	providers.Register("local", "this machine: a directory and processes, with walls where bubblewrap works",
		func(_ context.Context, o Options) (providers.Provider, error) { return New(o) })
}
