package configs

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration. Text never holds a
// value of the file, which could be a secret.
type Problem struct {
	File string
	Line int    // from 1; 0 when it belongs to no line
	Key  string // such as "worker.repos[1].url"; may be empty
	Text string // what is wrong, what is allowed, what to do
}

// String is one line: "pool.toml:7: pool.workers: must be …".
func (p Problem) String() string {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if p.Key == "" {
		return oneLine(hideTokens(where + ": " + p.Text))
	}
	return oneLine(hideTokens(fmt.Sprintf("%s: %s: %s", where, shortKey(p.Key), p.Text)))
}

// shortKey cuts what no key of ours is as long as.
func shortKey(key string) string {
	letters := []rune(key)
	if len(letters) <= 100 {
		return key
	}
	return string(letters[:100]) + "…"
}

// Problems is everything that is wrong with one configuration, in the order
// of its lines. It is the error of Load and Parse.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// inOrder sorts by line and drops what is said twice.
func (ps Problems) inOrder() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Key, b.Key)
	})
	return slices.Compact(ps)
}

// oneLine keeps a quoted key with a line break or an escape code in it from
// breaking the display.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return '�'
		}
		return r
	}, text)
}
