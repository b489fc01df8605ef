package control

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPeerIsThisUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), SocketName)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if uid, err := peerUID(in.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
		t.Errorf("peer is %d, %v; want %d", uid, err, os.Geteuid())
	}
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, os.Geteuid() + 1: false, -1: false} {
		if got := mayTalk(uid); got != want {
			t.Errorf("mayTalk(%d) = %v", uid, got)
		}
	}
}
