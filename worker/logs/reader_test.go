package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

func smallSettings(dir string) Settings {
	return Settings{Dir: dir, Name: "web-0", MaxSize: MinSize, MaxFiles: 4, LineLimit: 200}
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "line %04d %s\n", i, strings.Repeat("-", i%60))
	}
	return b.String()
}

func TestTailOverRotatedFiles(t *testing.T) {
	dir := t.TempDir()
	f := testFollower(t, Options{Settings: smallSettings(dir)})
	if err := f.Run(t.Context(), newProcess("l1", numbered(0, 500), true)); err != nil {
		t.Fatal(err)
	}
	all := texts(t, dir)
	if len(all) < 100 || len(all) >= 500 || !strings.HasPrefix(all[len(all)-1], "line 0499") {
		t.Fatalf("%d lines kept, the last %q", len(all), all[len(all)-1])
	}
	for n := range len(all) + 5 {
		lines, cursor, err := ReadTail(dir, "web-0", n)
		if err != nil {
			t.Fatal(err)
		}
		want := all[len(all)-min(n, len(all)):]
		if len(lines) != len(want) || (n > 0 && lines[0].Text != want[0]) {
			t.Fatalf("tail %d: %d lines", n, len(lines))
		}
		if n > 0 && lines[len(lines)-1].Cursor != cursor {
			t.Fatalf("cursor %q, last line's %q", cursor, lines[len(lines)-1].Cursor)
		}
	}
}

func TestReadBetweenTimes(t *testing.T) {
	dir := t.TempDir()
	s, err := NewSink(smallSettings(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for i := range 60 {
		s.files.now = func() time.Time { return start.Add(time.Duration(i) * time.Minute) }
		fmt.Fprintf(s, "minute %d\n", i)
	}
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{Tail: -1, From: start.Add(10 * time.Minute), To: start.Add(12 * time.Minute)}, "minute 10,minute 11"},
		{Query{Tail: 1, From: start.Add(10 * time.Minute), To: start.Add(12 * time.Minute)}, "minute 11"},
		{Query{Tail: 5, From: start.Add(58 * time.Minute)}, "minute 58,minute 59"},
		{Query{Tail: 5, From: start.Add(24 * time.Hour)}, ""},
		{Query{Tail: 2}, "minute 58,minute 59"},
		{Query{}, ""},
	} {
		var got []string
		if _, err := Read(dir, "web-0", c.q, func(l Line) error { got = append(got, l.Text); return nil }); err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%+v: got %v", c.q, got)
		}
	}
}

func TestReadOfNoLog(t *testing.T) {
	lines, cursor, err := ReadTail(t.TempDir(), "web-0", 10)
	if len(lines) != 0 || cursor != "" || err != nil {
		t.Errorf("%v %q %v", lines, cursor, err)
	}
	if err := Follow(t.Context(), t.TempDir(), "web-0", "nonsense", nil); err == nil {
		t.Error("a bad cursor is accepted")
	}
}

// follow collects until it has seen last.
func follow(t *testing.T, dir, cursor, last string, slow time.Duration) (got []Line) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	found := errors.New("found")
	err := Follow(ctx, dir, "web-0", cursor, func(l Line) error {
		got = append(got, l)
		time.Sleep(slow)
		if strings.HasPrefix(l.Text, last) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		t.Fatalf("follow: %v after %d lines", err, len(got))
	}
	return got
}

func checkNumbered(t *testing.T, got []Line, from int) {
	t.Helper()
	for i, l := range got {
		if want := fmt.Sprintf("line %04d", from+i); !strings.HasPrefix(l.Text, want) {
			t.Fatalf("line %d is %q, want %q", i, l.Text, want)
		}
	}
}

func TestFollowOverRotationsAndFromACursor(t *testing.T) {
	dir := t.TempDir()
	s := smallSettings(dir)
	s.MaxFiles = 100
	f := testFollower(t, Options{Settings: s})
	p := newProcess("l1", "", false)
	done := make(chan error)
	go func() { done <- f.Run(t.Context(), p) }()
	go func() {
		for i := 0; i < 1000; i += 10 {
			p.print(numbered(i, i+10))
		}
		p.end()
	}()
	got := follow(t, dir, "", "line 0999", 0)
	checkNumbered(t, got, 0)
	if len(got) != 1000 {
		t.Errorf("%d lines", len(got))
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 499, 998} {
		rest := follow(t, dir, got[i].Cursor, "line 0999", 0)
		checkNumbered(t, rest, i+1)
	}
}

// A crash takes uncommitted lines away and the next run writes them again: a
// reader that has seen them sees nothing twice and misses nothing.
func TestFollowOverACutAndRewrittenLog(t *testing.T) {
	dir := t.TempDir()
	s := smallSettings(dir)
	s.MaxSize = 1 << 20
	var recorded []Position
	record := func(p Position) error { recorded = append(recorded, p); return nil }
	f := testFollower(t, Options{Settings: s, Commit: record})
	if err := f.Run(t.Context(), newProcess("l1", numbered(0, 100), true)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	seen := follow(t, dir, "", "line 0099", 0)
	cursor := seen[len(seen)-1].Cursor

	// The supervisor died before it committed anything but the beginning.
	first := recorded[0]
	g := testFollower(t, Options{Settings: s, Recorded: first, Commit: record})
	p := newProcess("l1", "", false)
	done := make(chan error)
	go func() { done <- g.Run(t.Context(), p) }()
	collected := make(chan []Line)
	go func() { collected <- follow(t, dir, cursor, "line 0199", 0) }()
	for i := 0; i < 200; i += 5 {
		p.print(numbered(i, i+5))
	}
	p.end()
	got := <-collected
	checkNumbered(t, got, 100)
	if len(got) != 100 {
		t.Errorf("%d lines", len(got))
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSlowReaderIsToldWhatItMissedAndHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	s := smallSettings(dir)
	s.MaxFiles = 2
	f := testFollower(t, Options{Settings: s})
	p := newProcess("l1", numbered(0, 20), false)
	done := make(chan error)
	go func() { done <- f.Run(t.Context(), p) }()
	reading, written := make(chan bool), make(chan bool)
	collected := make(chan []string, 1)
	go func() {
		var got []string
		end := errors.New("end")
		err := Follow(t.Context(), dir, "web-0", "", func(l Line) error {
			if len(got) == 0 {
				close(reading)
				<-written // as slow as can be
			}
			got = append(got, l.Text)
			if strings.HasPrefix(l.Text, "line 0999") {
				return end
			}
			return nil
		})
		if !errors.Is(err, end) {
			t.Error(err)
		}
		collected <- got
	}()
	<-reading
	p.print(numbered(20, 1000))
	p.end()
	if err := <-done; err != nil { // while the reader reads nothing
		t.Fatal(err)
	}
	close(written)
	if got := strings.Join(<-collected, "\n"); !strings.Contains(got, "log files were rotated away") {
		t.Error("the reader was not told what it missed")
	}
}

func TestFollowOverDeletion(t *testing.T) {
	dir := t.TempDir()
	f := testFollower(t, Options{Settings: smallSettings(dir)})
	f.Note("one")
	collected := make(chan []Line)
	go func() { collected <- follow(t, dir, "", "[pool] three", 0) }()
	if err := os.Remove(path(dir, "web-0", 0)); err != nil {
		t.Fatal(err)
	}
	f.Note("two")
	f.Note("three")
	got := <-collected
	if n := len(got); n < 2 || got[n-2].Text != "[pool] two" {
		t.Errorf("got %v", got)
	}
}

func TestFollowShowsAtOnce(t *testing.T) {
	dir := t.TempDir()
	f := testFollower(t, Options{Settings: smallSettings(dir)})
	f.Note("begin")
	shown := make(chan time.Time, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	begun := make(chan bool, 1)
	go func() {
		ended <- Follow(ctx, dir, "web-0", "", func(l Line) error {
			if strings.HasSuffix(l.Text, "begin") {
				begun <- true
			} else {
				shown <- time.Now()
			}
			return nil
		})
	}()
	<-begun
	best := time.Hour
	for range 20 { // the best of some: the machine may be busy
		from := time.Now()
		f.Note("now")
		best = min(best, (<-shown).Sub(from))
	}
	if best > 50*time.Millisecond {
		t.Errorf("a line took %s to show", best)
	}
	cancel()
	<-ended
}

func TestSinkRotatesAndHidesForSlog(t *testing.T) {
	dir := t.TempDir()
	r, _ := NewRedactor([]string{"topsecret99"})
	settings := smallSettings(dir)
	s, err := NewSink(settings, r)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{ReplaceAttr: WithoutTime}))
	for i := range 400 {
		log.Info("hello", "number", i, "token", "topsecret99")
	}
	log.Info(strings.Repeat("x", 500))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = NewSink(settings, r); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fmt.Fprintln(s, "after a restart")
	got := texts(t, dir)
	n := len(got)
	if got[n-1] != "after a restart" || !strings.HasSuffix(got[n-2], "[pool: line was longer]") ||
		got[n-3] != "level=INFO msg=hello number=399 token="+redacted {
		t.Errorf("the end is %q", got[n-3:])
	}
	if total := diskUse(t, dir); total > settings.MaxSize*int64(settings.MaxFiles) {
		t.Errorf("%d bytes on disk", total)
	}
}
