package logs

import (
	"regexp"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string][2]string{ // without colour, with colour
		"plain":                                    {"plain", "plain"},
		"[red]tags[-]":                             {"[red]tags[-]", "[red]tags[-]"},
		"\x1b[31mred\x1b[0m":                       {"red", "\x1b[31mred\x1b[0m"},
		"\x1b[1;38:2::1:2:3mopen":                  {"open", "\x1b[1;38:2::1:2:3mopen\x1b[0m"},
		"\x1b[2J\x1b[H\x1b[10;5Hhome":              {"home", "home"},
		"\x1b[?1049halt\x1b[?1049l":                {"alt", "alt"},
		"\x1b[>4;2mkeys":                           {"keys", "keys"},
		"\x1b]0;title\x07after":                    {"after", "after"},
		"\x1b]52;c;ZXZpbA==\x1b\\after":            {"after", "after"},
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": {"link", "link"},
		"\x1bPq#0\x1b\\sixel":                      {"sixel", "sixel"},
		"\x1b(0line":                               {"line", "line"},
		"\x1b]0;never ended":                       {"␛]0;never ended", "␛]0;never ended"},
		"\x1b[31":                                  {"␛[31", "␛[31"},
		"\x1b":                                     {"␛", "␛"},
		"a\rb\x00\x07\x7f":                         {"a␍b␀␇␡", "a␍b␀␇␡"},
		"dos\r":                                    {"dos", "dos"},
		"a\tb\tc":                                  {"a       b       c", "a       b       c"},
		"世\tx":                                     {"世      x", "世      x"},
		"bad \xff\xfe utf":                         {"bad \uFFFD\uFFFD utf", "bad \uFFFD\uFFFD utf"},
		"next\u0085line\u2028":                     {"next\uFFFDline\uFFFD", "next\uFFFDline\uFFFD"},
		"\u202Eevil":                               {"\uFFFDevil", "\uFFFDevil"},
		"👩\u200d💻 ok é":                            {"👩\u200d💻 ok é", "👩\u200d💻 ok é"},
	} {
		if got := Clean(in, false); got != want[0] {
			t.Errorf("Clean(%q, false) = %q, want %q", in, got, want[0])
		}
		if got := Clean(in, true); got != want[1] {
			t.Errorf("Clean(%q, true) = %q, want %q", in, got, want[1])
		}
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;:]*m")

func FuzzClean(f *testing.F) {
	for _, s := range []string{"\x1b[31mx", "\x9b31mx", "\x1b]52;c;x\x07", "\xc2\x9b2J", "\x1b\x1b[31m", "\x1bP\x1b[31m", "\x1b[3\x1b[1m1m", "e\u0301\x1b[m\xf0\x9f", "\x1b[31\x18m\x9d0;x\x9c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, colour := range []bool{false, true} {
			got := Clean(s, colour)
			if !utf8.ValidString(got) {
				t.Fatalf("%q: invalid UTF-8 %q", s, got)
			}
			rest := got
			if colour {
				rest = sgr.ReplaceAllString(got, "")
			}
			for _, r := range rest {
				if unicode.IsControl(r) {
					t.Fatalf("%q: control %U in %q", s, r, got)
				}
			}
		}
	})
}
