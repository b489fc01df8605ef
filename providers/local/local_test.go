package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outpostpool/pool/providers"
)

// TestMain makes the tests undumpable, as the supervisor is: for its user much
// of /proc/self is then closed.
func TestMain(m *testing.M) {
	if err := Undump(); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// limit is how long anything here may take; everything takes far less.
const limit = 30 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// open makes a provider on dir; without bubblewrap its tests are skipped.
func open(t *testing.T, dir, isolation string) *Provider {
	t.Helper()
	p, err := New(Options{Dir: dir, Isolation: isolation})
	if isolation == "bwrap" && providers.Is(err, providers.Invalid) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// each runs a test with walls and without.
func each(t *testing.T, test func(t *testing.T, p *Provider)) {
	for _, isolation := range []string{"none", "bwrap"} {
		t.Run(isolation, func(t *testing.T) {
			p := open(t, filepath.Join(t.TempDir(), "sandboxes"), isolation)
			t.Cleanup(func() { removeAll(t, p) })
			test(t, p)
		})
	}
}

// removeAll removes what a test made, so that no process of it stays.
func removeAll(t *testing.T, p *Provider) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	infos, err := p.List(ctx, "web")
	if err != nil {
		t.Error(err)
	}
	for _, info := range infos {
		s, err := p.Open(ctx, info.ID)
		if err == nil {
			err = s.Remove(ctx, false)
		}
		if err != nil {
			t.Errorf("remove %s: %v", info.ID, err)
		}
	}
	p.reapAll()
}

func spec(slot, generation int) providers.Spec {
	l := providers.Labels{Pool: "web", UID: "0a1b2c3d", Slot: slot, Generation: generation, ConfigHash: "h"}
	return providers.Spec{Name: fmt.Sprintf("%s-g%d", slotKey(l), generation), Labels: l}
}

func create(t *testing.T, p *Provider, s providers.Spec) *Sandbox {
	t.Helper()
	made, err := p.Create(testContext(t), s)
	if err != nil {
		t.Fatal(err)
	}
	return made.(*Sandbox)
}

func script(text string) providers.Cmd { return providers.Cmd{Args: []string{"sh", "-c", text}} }

// run executes shell text and returns its output.
func run(t *testing.T, s *Sandbox, text string) (string, providers.Exit) {
	t.Helper()
	var out bytes.Buffer
	c := script(text)
	c.Stdout, c.Stderr = &out, &out
	exit, err := s.Exec(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), exit
}

func start(t *testing.T, s *Sandbox, launchID, text string) *Process {
	t.Helper()
	p, err := s.Launch(testContext(t), launchID, script(text))
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Process)
}

func wait(t *testing.T, p providers.Process) providers.Exit {
	t.Helper()
	exit, err := p.Wait(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// output reads the whole of an ended process's output.
func output(t *testing.T, p providers.Process) string {
	t.Helper()
	r, err := p.Output(testContext(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// eventually polls for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}

// fileText is what a file of the workspace holds, empty when it is not there.
func fileText(s *Sandbox, name string) string {
	data, _ := os.ReadFile(filepath.Join(s.p.hostWorkspace(s.meta.Labels), name))
	return strings.TrimSpace(string(data))
}

// sleepers counts the processes that sleep for so many seconds, which tests
// use as a mark that no process can drop.
func sleepers(t *testing.T, seconds string) int {
	t.Helper()
	all, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for pid, p := range all {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !p.zombie && string(line) == "sleep\x00"+seconds+"\x00" {
			count++
		}
	}
	return count
}

func itoa(n int) string { return strconv.Itoa(n) }
