package logs

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

const (
	tabWidth  = 8
	resetSGR  = "\x1b[0m"
	noPicture = '\uFFFD'
)

// Clean makes a line harmless to print on a terminal. Whole escape sequences
// (cursor movement, titles, links, clipboard, screens) vanish; what was begun
// and not ended, control characters, marks that turn the writing direction and
// invalid UTF-8 become visible; tabs become blanks. With keepColour the
// sequences for colour and style stay, and a last one ends them. The result
// has no control character but the escapes of those.
func Clean(s string, keepColour bool) string {
	s = strings.TrimRight(s, "\r")
	if plain(s) {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + 16)
	column, coloured := 0, false
	for len(s) > 0 {
		sequence, width, n, state := ansi.DecodeSequence(s, ansi.NormalState, nil)
		switch {
		case n == 0 || !escapes(s):
			n = max(n, 1)
			column += cleanText(&out, s[:n], width, column)
		case state != ansi.NormalState || !complete(sequence):
			// Only its first character: what follows may be text meant to hide.
			_, n = utf8.DecodeRuneInString(s)
			column += cleanText(&out, s[:n], 1, column)
		case keepColour && isSGR(sequence):
			out.WriteString(sequence)
			coloured = sequence != resetSGR && sequence != "\x1b[m"
		}
		s = s[n:]
	}
	if coloured {
		out.WriteString(resetSGR)
	}
	return out.String()
}

// plain reports whether s is printable ASCII, as nearly all lines are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// escapes reports whether s begins with the beginning of an escape sequence.
func escapes(s string) bool {
	switch s[0] {
	case ansi.ESC, ansi.CSI, ansi.OSC, ansi.DCS, ansi.APC, ansi.PM, ansi.SOS:
		return true
	}
	return false
}

// complete reports whether a decoded sequence has its end.
func complete(sequence string) bool {
	if sequence[0] != ansi.ESC {
		return len(sequence) > 1 && ended(sequence[0]-0x40, sequence[1:])
	}
	return len(sequence) > 1 && ended(sequence[1], sequence[2:])
}

func ended(kind byte, rest string) bool {
	switch kind {
	case '[':
		return rest != "" && rest[len(rest)-1] >= '@' && rest[len(rest)-1] <= '~'
	case ']', 'P', '_', '^', 'X':
		return strings.HasSuffix(rest, "\a") || strings.HasSuffix(rest, "\x1b\\") || strings.HasSuffix(rest, "\x9c")
	}
	return true
}

// isSGR reports whether a sequence sets colour or style and nothing else.
func isSGR(sequence string) bool {
	parameters, ok := strings.CutPrefix(sequence, "\x1b[")
	if !ok || len(parameters) > 64 {
		return false
	}
	parameters, ok = strings.CutSuffix(parameters, "m")
	return ok && strings.Trim(parameters, "0123456789;:") == ""
}

// cleanText writes text that is not the beginning of a sequence, a grapheme or
// a control character, and returns how many cells it takes.
func cleanText(out *strings.Builder, text string, width, column int) int {
	if text == "\t" {
		blanks := tabWidth - column%tabWidth
		out.WriteString(strings.Repeat(" ", blanks))
		return blanks
	}
	cells := width
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if shown := visible(r, size); shown != r || size == 1 && r == utf8.RuneError {
			cells++
			r = shown
		}
		out.WriteRune(r)
		text = text[size:]
	}
	return cells
}

// visible returns r, or what is shown in the place of one that may do harm.
func visible(r rune, size int) rune {
	switch {
	case r == utf8.RuneError && size <= 1:
		return noPicture
	case r < ' ':
		return '\u2400' + r // the pictures of control characters
	case r == 0x7f:
		return '\u2421'
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', turnsDirection(r):
		return noPicture
	}
	return r
}

// turnsDirection reports the marks with which text can be shown in another
// order than it is read in.
func turnsDirection(r rune) bool {
	return r == '\u061c' || r == '\u200e' || r == '\u200f' || (r >= '\u202a' && r <= '\u202e') || (r >= '\u2066' && r <= '\u2069')
}
