package control

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one event of a stream: a log line at its greatest length,
// each byte escaped, and a pool of some thousand workers fit in.
const maxEvent = 16 << 20

// sentEvent is one server-sent event.
type sentEvent struct {
	name, id string
	data     []byte
}

// eventReader reads a stream of server-sent events: comments and unknown
// fields are passed over, several data lines are one text, lines end with LF,
// CRLF or CR. What the stream's end cuts off is not an event.
type eventReader struct {
	lines *bufio.Reader
	last  string // the id stays until another comes
	crlf  bool   // a CR ended the last line: a LF now belongs to it
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{lines: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next event that has data; io.ErrUnexpectedEOF at the end,
// as a stream has none of its own.
func (r *eventReader) next() (sentEvent, error) {
	e := sentEvent{}
	var data []byte
	some := false
	for {
		line, err := r.line(maxEvent - len(data))
		if err != nil {
			return sentEvent{}, err
		}
		if len(line) == 0 {
			if !some {
				e.name = ""
				continue
			}
			e.id, e.data = r.last, data
			return e, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "id":
			if !bytes.ContainsRune(value, 0) {
				r.last = string(value)
			}
		case "data":
			if some {
				data = append(data, '\n')
			}
			data, some = append(data, value...), true
		}
	}
}

// line reads up to the next line's end.
func (r *eventReader) line(most int) ([]byte, error) {
	var line []byte
	for {
		c, err := r.lines.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		after := r.crlf
		r.crlf = c == '\r'
		switch {
		case c == '\n' && after:
			continue
		case c == '\n' || c == '\r':
			return line, nil
		case len(line) >= most:
			return nil, fmt.Errorf("an event of more than %d bytes", maxEvent)
		}
		line = append(line, c)
	}
}
