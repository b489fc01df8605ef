// Package logs carries a worker's output to files on this host and from there
// to people: it follows the output from a recorded offset without gap or
// repeat, hides secrets, stamps the time, rotates, and reads it all back.
package logs

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
)

// Position is what the supervisor records of a slot's log. The bytes of the
// output below Offset are in the log, whose file FileSeq has Length bytes.
type Position struct {
	LaunchID string // of the process whose output Offset counts
	Offset   int64  // bytes of its output that are in the log
	FileSeq  int64  // number of the file now written to, from 1; 0: none yet
	Length   int64  // of that file, in bytes
}

// Settings say where a log lies and how much of it is kept. All files of one
// log together stay at or below MaxSize × MaxFiles bytes.
type Settings struct {
	Dir       string
	Name      string // of the slot: "web-0"; the files are web-0.log, web-0.log.1, …
	MaxSize   int64  // bytes per file, at least MinSize
	MaxFiles  int    // at least 1
	LineLimit int    // bytes of a line before it is split; capped at half of MaxSize
}

// MinSize is the smallest allowed Settings.MaxSize, in bytes.
const MinSize = 4 << 10

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

func (s Settings) checked() (Settings, error) {
	switch {
	case !nameForm.MatchString(s.Name):
		return s, fmt.Errorf("log name %q: use letters, digits, dot, dash and underscore", s.Name)
	case s.Dir == "":
		return s, errors.New("a log needs a folder")
	case s.MaxSize < MinSize:
		return s, fmt.Errorf("log size %d: at least %d bytes", s.MaxSize, MinSize)
	case s.MaxFiles < 1:
		return s, fmt.Errorf("log files %d: at least 1", s.MaxFiles)
	case s.LineLimit < 1:
		return s, fmt.Errorf("line limit %d: at least 1 byte", s.LineLimit)
	}
	s.LineLimit = min(s.LineLimit, int(min(s.MaxSize/2, 1<<24)))
	return s, nil
}

// path is the file that was rotated n times; 0 is the one written to.
func path(dir, name string, n int) string {
	base := filepath.Join(dir, name+".log")
	if n == 0 {
		return base
	}
	return fmt.Sprintf("%s.%d", base, n)
}
