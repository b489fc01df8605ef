package launch

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/providers"
)

const goodPID = "launch=web-0.7\npid=120\nstart=3456\nboot=5ffc2824-675a\nkeeper=119\nkeeper_start=3450\nat=1796093606\n"

func TestParsePID(t *testing.T) {
	got, err := ParsePID([]byte(goodPID + "later=1\n"))
	want := PID{LaunchID: "web-0.7", Worker: Ident{120, "3456"}, Keeper: Ident{119, "3450"},
		Boot: "5ffc2824-675a", Started: time.Unix(1796093606, 0)}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for name, text := range map[string]string{
		"empty": "", "cut off": goodPID[:len(goodPID)-1], "half": goodPID[:40] + "\n",
		"init":     strings.Replace(goodPID, "pid=120", "pid=1", 1),
		"group":    strings.Replace(goodPID, "pid=120", "pid=-120", 1),
		"huge":     strings.Replace(goodPID, "pid=120", "pid=99999999999", 1),
		"bad id":   strings.Replace(goodPID, "web-0.7", "a b", 1),
		"option":   strings.Replace(goodPID, "start=3456", "start=$(id)", 1),
		"too long": goodPID + strings.Repeat("x", maxFile) + "\n",
	} {
		if got, err := ParsePID([]byte(text)); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
}

func TestParseExit(t *testing.T) {
	for text, want := range map[string]providers.Exit{
		"launch=a\ncode=0\nat=10\n":   {Known: true, At: time.Unix(10, 0)},
		"launch=a\ncode=128\nat=10\n": {Code: 128, Known: true, At: time.Unix(10, 0)},
		"launch=a\ncode=143\nat=10\n": {Code: 143, Signal: 15, Known: true, At: time.Unix(10, 0)},
		"launch=a\ncode=192\nat=10\n": {Code: 192, Signal: 64, Known: true, At: time.Unix(10, 0)},
		"launch=a\ncode=193\nat=10\n": {Code: 193, Known: true, At: time.Unix(10, 0)},
	} {
		got, err := ParseExit([]byte(text))
		if diff := cmp.Diff(want, got.Result()); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "launch=a\ncode=256\nat=10\n", "launch=a\ncode=-1\nat=10\n", "launch=a\ncode=1\n", "code=1\nat=10\n"} {
		if got, err := ParseExit([]byte(text)); err == nil {
			t.Errorf("%q: taken as %+v", text, got)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	for line, want := range map[string]Answer{
		"started 17\n":        {Verdict: Started, PID: 17},
		"same L1":             {Verdict: Same, LaunchID: "L1"},
		"conflict L1":         {Verdict: Conflict, LaunchID: "L1"},
		"stale 5":             {Verdict: Stale, Epoch: 5},
		"epoch 6":             {Verdict: Raised, Epoch: 6},
		"failed no fifo here": {Verdict: Failed, Why: "no fifo here"},
	} {
		got, err := ParseAnswer(line)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", line, err, diff)
		}
	}
	for _, line := range []string{"", "started", "started x", "started 1", "started 17\nsame L1", "same", "same a b", "stale -1", "ok", "sh: not found"} {
		if got, err := ParseAnswer(line); err == nil {
			t.Errorf("%q: taken as %+v", line, got)
		}
	}
}

func TestVerdict(t *testing.T) {
	rec := PID{LaunchID: "L2"}
	now := func() time.Time { return time.Unix(99, 0) }
	mine, other := "launch=L2\ncode=3\nat=50\n", "launch=L1\ncode=4\nat=40\n"
	known := providers.Exit{Code: 3, Known: true, At: time.Unix(50, 0)}
	lost := providers.Exit{At: time.Unix(99, 0)}
	for _, c := range []struct {
		name           string
		worker, keeper bool
		file           string
		want           providers.Exit
		ended          bool
	}{
		{"both live", true, true, "", providers.Exit{}, false},
		{"its keeper was killed", true, false, "", providers.Exit{}, false},
		{"dead, and its keeper about to say how", false, true, other, providers.Exit{}, false},
		{"dead, told", false, false, mine, known, true},
		{"dead, told, its keeper not yet gone", false, true, mine, known, true},
		{"dead, and its keeper too", false, false, "", lost, true},
		{"dead, an older exit in the file", false, false, other, lost, true},
		{"dead, half a file", false, false, mine[:15], lost, true},
	} {
		got, ended, err := verdict(rec, c.worker, c.keeper, c.file, now)
		if diff := cmp.Diff(c.want, got); diff != "" || ended != c.ended || err != nil {
			t.Errorf("%s: ended %v, %v\n%s", c.name, ended, err, diff)
		}
	}
}

func TestInputRefuses(t *testing.T) {
	good := providers.Cmd{Args: []string{"true"}}
	for name, c := range map[string]struct {
		id  string
		cmd providers.Cmd
	}{
		"no id":        {"", good},
		"id":           {"a b", good},
		"no args":      {"a", providers.Cmd{}},
		"relative dir": {"a", providers.Cmd{Args: good.Args, Dir: "x"}},
		"name":         {"a", good.WithEnv("A-B", "hush")},
		"digit first":  {"a", good.WithEnv("1A", "hush")},
		"shell's own":  {"a", good.WithEnv("IFS", "hush")},
		"NUL value":    {"a", good.WithEnv("A", "hush\x00")},
		"NUL arg":      {"a", providers.Cmd{Args: []string{"a\x00"}}},
	} {
		_, err := Input(c.cmd, c.id)
		if !providers.Is(err, providers.Invalid) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a shell makes of quoted text is that text.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "it's", "'''", "$(id)`id`\"\\", "\n-n\n", "\xff\x01ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			t.Skip()
		}
		out, err := exec.Command("dash", "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q came as %q, %v", s, out, err)
		}
	})
}

// Whatever a file holds, what is taken from it is safe to use.
func FuzzParse(f *testing.F) {
	for _, s := range []string{goodPID, goodPID[:30], "launch=a\ncode=137\nat=1\n", "started 17", "stale 5", "=\n=\n", "pid=1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParsePID(b); err == nil {
			if p.Worker.PID < 2 || p.Keeper.PID < 2 || !ValidID(p.LaunchID) || p.Started.IsZero() {
				t.Errorf("%q gave %+v", b, p)
			}
		}
		if e, err := ParseExit(b); err == nil {
			if e.Code < 0 || e.Code > 255 || !ValidID(e.LaunchID) {
				t.Errorf("%q gave %+v", b, e)
			}
		}
		if a, err := ParseAnswer(string(b)); err == nil && a.Verdict == Started && a.PID < 2 {
			t.Errorf("%q gave %+v", b, a)
		}
		if ParseEpoch(b) < 0 {
			t.Errorf("%q is a negative epoch", b)
		}
	})
}
