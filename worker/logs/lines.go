package logs

import "bytes"

// goesOn ends a piece of a line that was longer than the limit.
const goesOn = " [pool: line goes on]"

// splitter turns raw output into lines without secrets. It keeps what may not
// be given out yet; that stays below the limit plus the longest secret plus
// one chunk.
type splitter struct {
	limit    int
	redactor *Redactor
	pending  []byte
	spans    []span
	text     []byte
}

// emitLine takes one line without its newline; raw is how many bytes of output
// it stands for. The text is only valid during the call.
type emitLine func(text []byte, raw int) error

// feed takes the next chunk and gives out every line that is complete. On an
// error the splitter is to be reset: what was not given out is still pending
// at its source.
func (s *splitter) feed(chunk []byte, emit emitLine) error {
	newline := bytes.LastIndexByte(chunk, '\n')
	before := len(s.pending)
	s.pending = append(s.pending, chunk...)
	done := 0
	if newline >= 0 {
		done = before + newline + 1
		if err := s.whole(s.pending[:done], emit); err != nil {
			return err
		}
	}
	n, err := s.overlong(s.pending[done:], emit)
	if err != nil {
		return err
	}
	s.keep(done + n)
	return nil
}

// flush gives out the unterminated rest: all of it at the end of the output,
// else without what may be the beginning of a secret, whose second half would
// not be recognised alone.
func (s *splitter) flush(end bool, emit emitLine) error {
	rest := s.pending
	if len(rest) == 0 {
		return nil
	}
	s.spans = s.redactor.find(rest, s.spans[:0])
	cut := len(rest)
	if !end {
		cut -= s.redactor.held(rest)
		cut = beforeSpan(cut, s.spans)
	}
	if cut == 0 {
		return nil
	}
	if err := s.cutLine(rest[:cut], 0, false, emit); err != nil {
		return err
	}
	s.keep(cut)
	return nil
}

func (s *splitter) reset() { s.pending = s.pending[:0] }

func (s *splitter) keep(from int) {
	s.pending = s.pending[:copy(s.pending, s.pending[from:])]
}

// whole gives out the lines of b, which ends with a newline.
func (s *splitter) whole(b []byte, emit emitLine) error {
	s.spans = s.redactor.find(b, s.spans[:0])
	for at := 0; at < len(b); {
		length := bytes.IndexByte(b[at:], '\n')
		if err := s.cutLine(b[at:at+length], at, true, emit); err != nil {
			return err
		}
		at += length + 1
	}
	return nil
}

// cutLine gives out one line, in pieces where it is longer than the limit. It
// begins at base in the numbering of the spans.
func (s *splitter) cutLine(line []byte, base int, newline bool, emit emitLine) error {
	for len(line) > s.limit {
		cut := s.cut(len(line), base)
		if cut == len(line) {
			break
		}
		if err := s.give(line[:cut], base, true, cut, emit); err != nil {
			return err
		}
		line, base = line[cut:], base+cut
	}
	raw := len(line)
	if newline {
		raw++
	}
	return s.give(line, base, false, raw, emit)
}

// overlong gives out pieces of a line that has no end yet but is longer than
// the limit, and returns how many bytes they were. It waits for as many bytes
// beyond the limit as a secret may have, so that no cut falls into one.
func (s *splitter) overlong(b []byte, emit emitLine) (int, error) {
	reach := s.limit
	if s.redactor != nil {
		reach += s.redactor.long
	}
	if len(b) <= reach {
		return 0, nil
	}
	s.spans = s.redactor.find(b, s.spans[:0])
	at := 0
	for len(b)-at > reach {
		cut := s.cut(len(b)-at, at)
		if err := s.give(b[at:at+cut], at, true, cut, emit); err != nil {
			return at, err
		}
		at += cut
	}
	return at, nil
}

// cut returns where to cut a line of this length so that no secret is cut.
func (s *splitter) cut(length, base int) int {
	cut := beforeSpan(base+s.limit, s.after(base))
	if cut > base {
		return cut - base
	}
	return min(s.after(base)[0].end-base, length)
}

// after returns the spans that end beyond base; it drops the others for good,
// since lines are given out in order.
func (s *splitter) after(base int) []span {
	for len(s.spans) > 0 && s.spans[0].end <= base {
		s.spans = s.spans[1:]
	}
	return s.spans
}

// beforeSpan moves cut to the start of the span it would divide.
func beforeSpan(cut int, spans []span) int {
	for _, s := range spans {
		if s.start >= cut {
			break
		}
		if s.end > cut {
			return s.start
		}
	}
	return cut
}

func (s *splitter) give(text []byte, base int, more bool, raw int, emit emitLine) error {
	spans := s.after(base)
	hidden := len(spans) > 0 && spans[0].start < base+len(text)
	if !hidden && !more {
		return emit(text, raw)
	}
	s.text = appendRedacted(s.text[:0], text, base, spans)
	if more {
		s.text = append(s.text, goesOn...)
	}
	return emit(s.text, raw)
}
