package local

import (
	"io"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
)

// A hundred quiet followers and as many who wait cost no thread and hardly any
// processor time.
func TestQuietFollowersCostNothing(t *testing.T) {
	p := open(t, t.TempDir(), "none")
	s := create(t, p, spec(0, 1))
	w := start(t, s, "l1", "echo one; exec sleep 3434")
	var all sync.WaitGroup
	var readers []io.Closer
	started := make(chan struct{}, 200)
	for range 100 {
		r, err := w.Output(testContext(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
		all.Go(func() {
			buffer := make([]byte, 100)
			for first := true; ; first = false {
				if _, err := r.Read(buffer); err != nil {
					return
				}
				if first {
					started <- struct{}{}
				}
			}
		})
	}
	for range 100 {
		<-started
	}
	quiet := func() bool { // all are parked: nobody has used time for a moment
		before := ownTime(t)
		time.Sleep(20 * time.Millisecond)
		return ownTime(t)-before < 2*time.Millisecond
	}
	eventually(t, "they are all waiting", quiet)
	threads := pprof.Lookup("threadcreate").Count()
	const span = time.Second
	before := ownTime(t)
	time.Sleep(span)
	spent := ownTime(t) - before
	t.Logf("100 followers: %v of processor time in %v, %d threads, %d goroutines", spent, span, threads, runtime.NumGoroutine())
	if spent > 100*time.Millisecond {
		t.Errorf("100 quiet followers used %v in %v", spent, span)
	}
	if threads > 60 {
		t.Errorf("%d threads", threads)
	}
	if err := w.Signal(testContext(t), providers.KILL); err != nil {
		t.Fatal(err)
	}
	all.Wait() // each sees the end by itself
	for _, r := range readers {
		r.Close()
	}
	removeAll(t, p)
}

func ownTime(t *testing.T) time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func TestUndump(t *testing.T) {
	dumpable := func() int {
		got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := Undump(); err != nil {
		t.Fatal(err)
	}
	if got := dumpable(); got != 0 {
		t.Fatalf("dumpable is %d", got)
	}
	// The provider works all the same, and what it starts is dumpable again.
	p := open(t, t.TempDir(), "none")
	defer removeAll(t, p)
	s := create(t, p, spec(0, 1))
	if text, exit := run(t, s, "head -c 1 /proc/self/environ >/dev/null && echo yes"); text != "yes\n" {
		t.Errorf("%q %+v", text, exit)
	}
}
