package outposttest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
)

// beat is how often chatter writes; the rate of each habit is spread over it.
const beat = 20 * time.Millisecond

const (
	escapeLine = "\x1b[2J\x1b[H\x1b[?1049h\x1b]52;c;c2VjcmV0\a\x1b]8;;http://x.invalid\alink\x1b]8;;\a\x1b]0;title\a[red]\x1b[31mred \x1b[9999;9999H\x1b[6n\x1bP+q\x1b\\ unfinished \x1b[\n"
	wideLine   = "宽字符 日本語 👩‍👩‍👧‍👦 e\u0301\u0301\u0301 \u202eright to left\u202c \u200b zero \xff\xfe broken\n"
)

// chatter prints what the habits say until ctx ends. It is apart from the
// work, as the output of a session's tools is.
func (l *life) chatter(ctx context.Context) {
	h := l.habits
	if h.lines == 0 && h.flood == 0 && !h.endless && !h.binary && !h.escapes && !h.wide {
		return
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	start, printed, flooded, beats := time.Now(), 0, 0, 0
	for {
		elapsed := time.Since(start).Seconds()
		for ; printed < int(elapsed*float64(h.lines)); printed++ {
			l.raw([]byte(fmt.Sprintf("line %d\n", printed+1)))
		}
		for ; flooded < int(elapsed*float64(h.flood)); flooded += len(floodBlock) {
			if ctx.Err() != nil {
				return
			}
			l.raw(floodBlock)
		}
		if beats%10 == 0 {
			l.oddities()
		}
		beats++
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

var floodBlock = bytes.Repeat([]byte(strings.Repeat("flood ", 21)+"\n"), 64)

func (l *life) oddities() {
	if l.habits.endless {
		l.raw(bytes.Repeat([]byte("endless "), 512))
	}
	if l.habits.binary {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		l.raw(every)
	}
	if l.habits.escapes {
		l.raw([]byte(escapeLine))
	}
	if l.habits.wide {
		l.raw([]byte(wideLine))
	}
}

// leakToken prints the token in one piece, and once more cut in two, which is
// what a chunk's border does to it.
func (l *life) leakToken() {
	half := len(l.flags.token) / 2
	l.print("the token is %s", l.flags.token)
	l.raw([]byte("again: " + l.flags.token[:half]))
	time.Sleep(beat)
	l.raw([]byte(l.flags.token[half:] + "\n"))
}
