package control_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/pool/control/controltest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, socket string) *control.Client {
	t.Helper()
	c := control.Dial(socket)
	t.Cleanup(c.Close)
	return c
}

func TestSocketIsOnlyOurs(t *testing.T) {
	folder := t.TempDir()
	socket, stop := controltest.Serve(t, folder, &controltest.Backend{}, control.Options{})
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v; want 0600", info.Mode(), err)
	}
	entries, _ := os.ReadDir(folder)
	if len(entries) != 1 {
		t.Errorf("the folder holds more than the socket: %v", entries)
	}
	if _, err := control.Listen(socket); !errors.Is(err, control.ErrInUse) {
		t.Errorf("a second Listen: %v; want ErrInUse", err)
	}
	stop()
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, control.SocketName)
	t.Chdir(folder) // a short name for the stale one
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: control.SocketName, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	if _, err := client(t, path).Pool(context.Background()); !errors.Is(err, control.ErrNotRunning) || !strings.Contains(err.Error(), "pool up") {
		t.Errorf("on a stale socket: %v; want ErrNotRunning and what to do", err)
	}
	socket, _ := controltest.Serve(t, folder, &controltest.Backend{}, control.Options{})
	if err := client(t, socket).Health(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestListenRefusesWhatIsNotASocket(t *testing.T) {
	for name, make := range map[string]func(string) error{
		"a file":          func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) },
		"a folder":        func(p string) error { return os.Mkdir(p, 0o700) },
		"a symbolic link": func(p string) error { return os.Symlink("/nowhere", p) },
	} {
		path := filepath.Join(t.TempDir(), control.SocketName)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if _, err := control.Listen(path); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s was removed: %v", name, err)
		}
	}
	if _, err := control.Listen(filepath.Join(t.TempDir(), "absent", control.SocketName)); err == nil {
		t.Error("listening in a folder that does not exist succeeded")
	}
}

func TestListenRefusesAnothersSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a socket away")
	}
	path := filepath.Join(t.TempDir(), control.SocketName)
	l, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Lchown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(path); err == nil || !strings.Contains(err.Error(), "12345") {
		t.Errorf("%v; want the owner named", err)
	}
}

func TestLongPath(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("long-", 40), strings.Repeat("x", 100))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	b := &controltest.Backend{}
	b.SetPool(control.Pool{Name: "far"})
	socket, stop := controltest.Serve(t, folder, b, control.Options{})
	if p, err := client(t, socket).Pool(context.Background()); err != nil || p.Name != "far" {
		t.Fatalf("%v, %v", p.Name, err)
	}
	stop()
	if _, err := client(t, socket).Pool(context.Background()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAnOldListenerLeavesANewSocketAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), control.SocketName)
	old, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path) // somebody tidied up
	young, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer young.Close()
	old.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the new socket went with the old listener: %v", err)
	}
}
