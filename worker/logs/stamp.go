package logs

import (
	"bytes"
	"strconv"
	"time"
)

// stampLayout has a fixed width, so that lines written again after a crash
// have the same offsets as before.
const stampLayout = "2006-01-02T15:04:05.000Z"

const stampWidth = len(stampLayout)

// overhead is what a line on disk has beside its text: stamp, blank, newline.
const overhead = stampWidth + 2

// poolMark begins the text of lines that pool itself writes.
const poolMark = "[pool] "

// headerMark begins the first line of every file. It carries the file's
// number, which names the file through all its renames.
const headerMark = poolMark + "log file "

// headerRoom is more than any header's length in bytes.
const headerRoom = 80

func appendStamp(b []byte, at time.Time) []byte {
	return at.UTC().AppendFormat(b, stampLayout)
}

func appendHeader(b []byte, seq int64, at time.Time) []byte {
	b = append(appendStamp(b, at), ' ')
	b = strconv.AppendInt(append(b, headerMark...), seq, 10)
	return append(b, '\n')
}

// parseHeader returns a file's number and the length of its first line; ok is
// false when that line is torn or not ours.
func parseHeader(b []byte) (seq, length int64, ok bool) {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	if !whole || len(line) <= stampWidth+1 {
		return 0, 0, false
	}
	number, found := bytes.CutPrefix(line[stampWidth+1:], []byte(headerMark))
	if !found {
		return 0, 0, false
	}
	seq, err := strconv.ParseInt(string(number), 10, 64)
	return seq, int64(len(line) + 1), err == nil && seq > 0
}

// parseLine takes a line of a file apart. A line without a stamp, which
// somebody else wrote, keeps its text and has no time.
func parseLine(line []byte) (time.Time, []byte) {
	if len(line) > stampWidth && line[stampWidth] == ' ' {
		if at, err := time.Parse(stampLayout, string(line[:stampWidth])); err == nil {
			return at, line[stampWidth+1:]
		}
	}
	return time.Time{}, line
}
