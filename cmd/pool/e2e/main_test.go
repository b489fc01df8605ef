package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test; standIn is the same without the race
// detector, for the doubles of worker and outpost.
var binary, standIn string

// manyWorlds is how many tests run at once: they wait more than they compute.
const manyWorlds = "8"

func TestMain(m *testing.M) {
	os.Exit(prepareAndRun(m))
}

func prepareAndRun(m *testing.M) int {
	flag.Parse()
	if !given("test.parallel") {
		if err := flag.Set("test.parallel", manyWorlds); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	// Unix sockets have short names: not below the test's own folder.
	dir, err := os.MkdirTemp("/tmp", "pe-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = os.Getenv("POOL_E2E_BINARY")
	standIn = binary
	if binary == "" {
		binary, standIn = filepath.Join(dir, "pool"), filepath.Join(dir, "devin")
		if err := errors.Join(build(binary, "-race"), build(standIn)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// build compiles the program.
func build(to string, flags ...string) error {
	args := append(append([]string{"build", "-o", to}, flags...), "github.com/outpostpool/pool/cmd/pool")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}
