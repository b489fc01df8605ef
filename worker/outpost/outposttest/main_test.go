package outposttest

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be the programs, as `pool __outpost` and `pool
// __worker` will be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__outpost":
			os.Exit(RunServer(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
		case "__worker":
			os.Exit(RunWorker(context.Background(), os.Args[2:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
		}
	}
	goleak.VerifyTestMain(m)
}
