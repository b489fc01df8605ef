package logs

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The log of a run that crashes again and again, at any step, is the log of a
// run that does not.
func TestNoGapAndNoRepeatOverCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "logs")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		line := rapid.StringMatching(`[a-z ]{0,300}`)
		output := strings.Join(rapid.SliceOfN(line, 1, 120).Draw(t, "lines"), "\n")
		if rapid.Bool().Draw(t, "terminated") {
			output += "\n"
		}
		settings := Settings{Name: "web-0", MaxSize: MinSize, LineLimit: 200,
			MaxFiles: rapid.IntRange(1, 4).Draw(t, "files")}
		piece := rapid.IntRange(1, 2000).Draw(t, "piece")
		crashes := rapid.SliceOfN(rapid.IntRange(0, 25), 0, 30).Draw(t, "crashes")

		smooth, rough := settings, settings
		smooth.Dir, rough.Dir = dir+"/smooth", dir+"/rough"
		runCrashing(t, smooth, newProcess("l1", output, true), piece, nil)
		p := newProcess("l1", output, true)
		runCrashing(t, rough, p, piece, crashes)
		if want, got := stampless(t, smooth.Dir), stampless(t, rough.Dir); want != got {
			t.Fatalf("logs differ\nwithout crashes:\n%s\nwith:\n%s", want, got)
		}
		if p.tooLow {
			t.Fatal("read what was discarded")
		}
		if p.discarded != int64(len(output)) {
			t.Fatalf("discarded %d of %d", p.discarded, len(output))
		}
	})
}

// runCrashing runs to the end of the output, crashing after so many steps each
// time, and starts anew from what was recorded.
func runCrashing(t *rapid.T, s Settings, p *fakeProcess, piece int, crashes []int) {
	p.piece = piece
	var recorded Position
	for {
		left := -1
		if len(crashes) > 0 {
			left, crashes = crashes[0], crashes[1:]
		}
		step := func(string) bool {
			left--
			return left == -1
		}
		f, err := NewFollower(Options{Settings: s, Recorded: recorded, Commit: func(at Position) error {
			if step("commit") {
				panic(crash{"before commit"})
			}
			recorded = at
			if step("committed") {
				panic(crash{"after commit"})
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		disk := crashingDisk{step}
		f.files.disk = disk
		p.step = disk.at
		if survived(t, f, p) {
			f.Close()
			return
		}
		f.Close()
		sizes(t, s)
	}
}

func survived(t *rapid.T, f *Follower, p *fakeProcess) (whole bool) {
	defer func() {
		switch died := recover().(type) {
		case nil:
		case crash:
			whole = false
		default:
			panic(died)
		}
	}()
	if err := f.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return true
}

func sizes(t *rapid.T, s Settings) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	total := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if err != nil || total > s.MaxSize*int64(s.MaxFiles) {
		t.Fatalf("disk use %d, %v", total, err)
	}
}

func stampless(t *rapid.T, dir string) string {
	var all strings.Builder
	for i := range 20 {
		b, err := os.ReadFile(path(dir, "web-0", i))
		if err != nil {
			continue
		}
		all.WriteString(path("", "web-0", i) + "\n")
		for line := range strings.Lines(string(b)) {
			all.WriteString(line[min(stampWidth, len(line)):])
		}
	}
	return all.String()
}
