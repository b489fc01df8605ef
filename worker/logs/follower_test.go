package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPromptShowsAndLateSecretHides(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r, _ := NewRedactor([]string{"topsecret99"})
		f := testFollower(t, Options{Settings: testSettings(dir), Redactor: r})
		p := newProcess("l1", "one\nPassword: ", false)
		done := make(chan error)
		go func() { done <- f.Run(t.Context(), p) }()
		time.Sleep(time.Second)
		same(t, texts(t, dir), []string{"one", "Password: "})
		p.print("a topsec") // the beginning waits for what follows
		time.Sleep(time.Minute)
		same(t, texts(t, dir), []string{"one", "Password: ", "a "})
		p.print("ret99 b\ntops")
		time.Sleep(time.Second)
		p.end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		same(t, texts(t, dir), []string{"one", "Password: ", "a ", redacted + " b", "tops"})
	})
}

func TestRedactorReplacedWhileRunning(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := testFollower(t, Options{Settings: testSettings(dir)})
		p := newProcess("l1", "newtoken1\nnewto", false)
		done := make(chan error)
		go func() { done <- f.Run(t.Context(), p) }()
		synctest.Wait()
		r, _ := NewRedactor([]string{"newtoken1"})
		f.SetRedactor(r)
		p.print("ken1\n")
		p.end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		same(t, texts(t, dir), []string{"newtoken1", redacted})
	})
}

func TestLongLinesAreSplitWithAMarker(t *testing.T) {
	dir := t.TempDir()
	s := testSettings(dir)
	s.LineLimit = 10
	f := testFollower(t, Options{Settings: s})
	if err := f.Run(t.Context(), newProcess("l1", "0123456789abcdefghijXYZ\nshort\nexactly 10\n\n", true)); err != nil {
		t.Fatal(err)
	}
	same(t, texts(t, dir), []string{"0123456789" + goesOn, "abcdefghij" + goesOn, "XYZ", "short", "exactly 10", ""})
}

func TestEndlessLineKeepsMemoryAndDiskSmall(t *testing.T) {
	dir := t.TempDir()
	s := testSettings(dir)
	s.MaxSize, s.MaxFiles, s.LineLimit = 64<<10, 2, 1<<10
	f := testFollower(t, Options{Settings: s})
	p := newProcess("l1", strings.Repeat("x", 3<<20), true)
	if err := f.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := cap(f.lines.pending); got > 2*chunkSize {
		t.Errorf("%d bytes pending", got)
	}
	if total := diskUse(t, dir); total > s.MaxSize*int64(s.MaxFiles) {
		t.Errorf("%d bytes on disk", total)
	}
	if p.discarded != 3<<20 {
		t.Errorf("discarded %d", p.discarded)
	}
}

func TestBacklogIsSkippedWithAMarkerAndNoHalfSecret(t *testing.T) {
	r, _ := NewRedactor([]string{"topsecret99"})
	settings := testSettings(t.TempDir())
	settings.MaxSize = 4 << 30 // so that the marker stays in the first file
	f := testFollower(t, Options{Settings: settings, Redactor: r})
	const over = 80 << 20
	// Reading begins in the middle of the secret, 64 MB before the end.
	tail := "ecret99 rest of a line\nkept\n"
	tail += strings.Repeat("y", maxBacklog-len(tail)-1) + "\n"
	p := newProcess("l1", tail, true)
	p.base = over
	if err := f.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 300)
	file, err := os.Open(f.files.path(0))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Read(b); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("[pool] skipped %d bytes of output", over+len("ecret99 rest of a line\n"))
	if got := string(b); !strings.Contains(got, want) || strings.Contains(got, "ecret99") || !strings.Contains(got, " kept\n") {
		t.Errorf("log begins %q", got)
	}
	if f.Position().Offset != over+int64(len(tail)) {
		t.Errorf("position %+v", f.Position())
	}
}

// flood grows by 100 MB a second and can be read at less than 2.
type flood struct {
	*fakeProcess
	began time.Time
	end   int64
}

func (p flood) OutputSize(context.Context) (int64, error) {
	return min(p.end, int64(time.Since(p.began).Seconds()*100e6)), nil
}
func (p flood) Output(_ context.Context, offset int64) (io.ReadCloser, error) {
	return io.NopCloser(&floodOutput{p, offset}), nil
}

type floodOutput struct {
	flood
	at int64
}

func (o *floodOutput) Read(b []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	n := int(min(int64(len(b)), 16<<10, o.end-o.at))
	for i := range n {
		b[i] = 'x'
		if (o.at+int64(i))%1000 == 999 {
			b[i] = '\n'
		}
	}
	if o.at += int64(n); n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestReaderTooSlowForAFloodSkips(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := testSettings(dir)
		s.MaxSize, s.MaxFiles = 200<<20, 1
		f := testFollower(t, Options{Settings: s})
		p := flood{newProcess("l1", "", true), time.Now(), 100e6}
		if err := f.Run(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		var skipped int64
		raw := int64(0)
		for _, text := range texts(t, dir) {
			if n, _ := fmt.Sscanf(text, "[pool] skipped %d bytes of output: more than 64 MB", &skipped); n == 1 {
				raw += skipped
				continue
			}
			raw += int64(len(text)) + 1
		}
		if skipped == 0 || raw != p.end {
			t.Errorf("skipped %d; all in all %d of %d", skipped, raw, p.end)
		}
	})
}

func TestDiscardedZerosAreSkipped(t *testing.T) {
	dir := t.TempDir()
	f := testFollower(t, Options{Settings: testSettings(dir)})
	if err := f.Run(t.Context(), newProcess("l1", strings.Repeat("\x00", 1<<20)+"alive\n", true)); err != nil {
		t.Fatal(err)
	}
	got := texts(t, dir)
	if len(got) != 2 || !strings.HasPrefix(got[0], "[pool] skipped 1048576 bytes") || got[1] != "alive" {
		t.Errorf("log %q", got)
	}
}

// fullDisk fails writes while full, leaving half of each behind.
type fullDisk struct {
	realDisk
	full *atomic.Bool
}
type fullFile struct {
	file
	full *atomic.Bool
}

func (d fullDisk) open(path string, flags int) (file, error) {
	f, err := d.realDisk.open(path, flags)
	return fullFile{f, d.full}, err
}
func (f fullFile) WriteAt(b []byte, at int64) (int, error) {
	if f.full.Load() {
		n, _ := f.file.WriteAt(b[:len(b)/2], at)
		return n, syscall.ENOSPC
	}
	return f.file.WriteAt(b, at)
}

func TestFullDiskIsToldAndLosesNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var told []error
		var full atomic.Bool
		f := testFollower(t, Options{Settings: testSettings(dir), OnError: func(err error) { told = append(told, err) }})
		f.files.disk = fullDisk{full: &full}
		p := newProcess("l1", "one\n", false)
		done := make(chan error)
		go func() { done <- f.Run(t.Context(), p) }()
		time.Sleep(time.Second)
		full.Store(true)
		p.print("two\n")
		for range 100 {
			p.print("three\n")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(told) != 1 || !errors.Is(told[0], syscall.ENOSPC) {
			t.Errorf("told %v", told)
		}
		same(t, texts(t, dir), []string{"one"})
		full.Store(false)
		p.end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := texts(t, dir); len(got) != 102 || got[1] != "two" {
			t.Errorf("%d lines: %q", len(got), got)
		}
		if len(told) != 2 || told[1] != nil {
			t.Errorf("told %v", told)
		}
	})
}

func TestFailingCommitHoldsTheRotation(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var last Position
		s := testSettings(dir)
		s.MaxSize, s.MaxFiles, s.LineLimit = MinSize, 20, 100
		f := testFollower(t, Options{Settings: s, Commit: func(p Position) error {
			if broken.Load() {
				return errors.New("database is locked")
			}
			last = p
			return nil
		}})
		p := newProcess("l1", "", false)
		done := make(chan error)
		go func() { done <- f.Run(t.Context(), p) }()
		time.Sleep(time.Second)
		broken.Store(true)
		p.print(strings.Repeat("0123456789\n", 1000))
		time.Sleep(time.Minute)
		synctest.Wait()
		if last.Offset != 0 || p.discarded != 0 {
			t.Errorf("committed %+v, discarded %d", last, p.discarded)
		}
		if _, err := os.Stat(f.files.path(1)); err == nil {
			t.Error("rotated without a commit")
		}
		broken.Store(false)
		p.end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := texts(t, dir); len(got) != 1000 {
			t.Errorf("%d lines", len(got))
		}
		if last.Offset != 11000 {
			t.Errorf("committed %+v", last)
		}
	})
}

func TestNotesAndSeveralLaunches(t *testing.T) {
	dir := t.TempDir()
	var last Position
	r, _ := NewRedactor([]string{"topsecret99"})
	f := testFollower(t, Options{Settings: testSettings(dir), Redactor: r, Commit: func(p Position) error { last = p; return nil }})
	fmt.Fprint(f.Notes(), "worker started\nwith topsecret99\n")
	if last.Length == 0 {
		t.Error("a note alone is not committed")
	}
	for _, launch := range []string{"l1", "l2"} {
		if err := f.Run(t.Context(), newProcess(launch, "from "+launch, true)); err != nil {
			t.Fatal(err)
		}
		f.Note("worker ended")
	}
	same(t, texts(t, dir), []string{
		"[pool] worker started", "[pool] with " + redacted, "from l1", "[pool] worker ended", "from l2", "[pool] worker ended"})
	if last.LaunchID != "l2" || last.Offset != 7 {
		t.Errorf("position %+v", last)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var last Position
		f := testFollower(t, Options{Settings: testSettings(dir), Commit: func(p Position) error { last = p; return nil }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx, newProcess("l1", "whole\npart", false)) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if last.Offset != 6 {
			t.Errorf("committed %+v; the part is not written", last)
		}
	})
}

func TestLogRemovedUnderUs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := testFollower(t, Options{Settings: testSettings(dir)})
		p := newProcess("l1", "one\n", false)
		done := make(chan error)
		go func() { done <- f.Run(t.Context(), p) }()
		time.Sleep(time.Second)
		if err := os.Remove(f.files.path(0)); err != nil {
			t.Fatal(err)
		}
		p.print("two\n")
		time.Sleep(time.Second)
		if err := os.Truncate(f.files.path(0), 0); err != nil {
			t.Fatal(err)
		}
		p.print("three\n")
		p.end()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		same(t, texts(t, dir), []string{"three"})
		if f.Position().FileSeq != 3 {
			t.Errorf("position %+v", f.Position())
		}
	})
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func diskUse(t *testing.T, dir string) (total int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	return total
}

// BenchmarkFollower is the whole way from the sandbox's output to the files.
func BenchmarkFollower(b *testing.B) {
	const size = 64 << 20
	output := string(sampleOutput(size))
	r, _ := NewRedactor([]string{"cog_0123456789abcdef0123456789abcdef", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"})
	b.SetBytes(size)
	for b.Loop() {
		s := testSettings(b.TempDir())
		s.MaxSize, s.MaxFiles = 10<<20, 5
		f := testFollower(b, Options{Settings: s, Redactor: r})
		if err := f.Run(b.Context(), newProcess("l1", output, true)); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
