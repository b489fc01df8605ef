package configs

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// positions knows on which line each key and each element of a list stands.
// Its keys look like "worker.repos[1].url".
type positions map[string]int

// line returns the line of a key, or of the nearest thing around it that the
// file has: a missing key is reported at its table. 0 when there is nothing.
func (p positions) line(key string) int {
	for key != "" {
		if line, found := p[key]; found {
			return line
		}
		key = parentOf(key)
	}
	return 0
}

// parentOf cuts the last part off a key: "a.b[1]" is in "a.b", "a.b" in "a".
func parentOf(key string) string {
	if strings.HasSuffix(key, "]") {
		return key[:strings.LastIndexByte(key, '[')]
	}
	if strings.HasSuffix(key, `"`) {
		start := strings.LastIndexByte(key[:len(key)-1], '"')
		return strings.TrimSuffix(key[:max(start, 0)], ".")
	}
	return key[:max(strings.LastIndexByte(key, '.'), 0)]
}

func keyIn(parent, name string) string {
	// A quote inside a quoted name would end it for parentOf.
	name = strings.ReplaceAll(toml.Key{name}.String(), `\"`, `'`)
	if parent == "" {
		return name
	}
	return parent + "." + name
}

func elementOf(parent string, index int) string {
	return parent + "[" + strconv.Itoa(index) + "]"
}

// findPositions reads TOML that the library has accepted already; it only
// looks where things are. What it does not understand it leaves out.
func findPositions(source string) positions {
	s := &scanner{source: source, line: 1, found: positions{}, lists: map[string]int{}}
	s.document()
	return s.found
}

type scanner struct {
	source string
	at     int
	line   int
	found  positions
	lists  map[string]int // how many [[tables]] a list has so far
}

func (s *scanner) document() {
	table := ""
	for {
		s.skipBlank()
		before := s.at
		switch {
		case s.done():
			return
		case s.peek("[["):
			table = s.header(2)
		case s.peek("["):
			table = s.header(1)
		default:
			s.pair(table)
		}
		if s.at == before {
			return // not TOML; never happens after the library's look
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the table's key. Each part that
// is a list of tables means its last element.
func (s *scanner) header(brackets int) string {
	line := s.line
	s.at += brackets
	names := s.names()
	key := ""
	for i, name := range names {
		key = keyIn(key, name)
		if i == len(names)-1 && brackets == 2 {
			if s.lists[key] == 0 {
				s.mark(key, line)
			}
			s.lists[key]++
		}
		if n := s.lists[key]; n > 0 {
			key = elementOf(key, n-1)
		}
		s.mark(key, line)
	}
	s.skipBlank()
	for i := 0; i < brackets && s.peek("]"); i++ {
		s.at++
	}
	return key
}

// pair reads one key = value.
func (s *scanner) pair(table string) {
	line := s.line
	key := table
	for _, name := range s.names() {
		key = keyIn(key, name)
		s.mark(key, line)
	}
	s.skipSpace()
	if s.peek("=") {
		s.at++
		s.value(key)
	}
}

func (s *scanner) value(key string) {
	s.skipSpace()
	switch {
	case s.peek(`"`), s.peek("'"):
		s.text()
	case s.peek("["):
		s.list(key)
	case s.peek("{"):
		s.inlineTable(key)
	default:
		for !s.done() && !strings.ContainsRune(",]}#\r\n", rune(s.source[s.at])) {
			s.at++
		}
	}
}

func (s *scanner) list(key string) {
	s.at++
	for index := 0; ; index++ {
		s.skipSeparators()
		if s.done() || s.peek("]") {
			break
		}
		before := s.at
		element := elementOf(key, index)
		s.mark(element, s.line)
		s.value(element)
		if s.at == before {
			return
		}
	}
	s.step()
}

func (s *scanner) inlineTable(key string) {
	s.at++
	for {
		s.skipSeparators()
		if s.done() || s.peek("}") {
			break
		}
		before := s.at
		s.pair(key)
		if s.at == before {
			return
		}
	}
	s.step()
}

// names reads a dotted key: bare, "quoted" and 'quoted' parts.
func (s *scanner) names() []string {
	var names []string
	for {
		s.skipSpace()
		start := s.at
		if s.peek(`"`) || s.peek("'") {
			s.text()
			names = append(names, unquote(s.source[start:s.at]))
		} else {
			for !s.done() && !strings.ContainsRune(". \t=]}\r\n,#\"'", rune(s.source[s.at])) {
				s.at++
			}
			names = append(names, s.source[start:s.at])
		}
		s.skipSpace()
		if !s.peek(".") {
			return names
		}
		s.at++
	}
}

// unquote leaves the escapes of a quoted key to the library.
func unquote(quoted string) string {
	var doc struct{ K string }
	if _, err := toml.Decode("K = "+quoted, &doc); err != nil {
		return quoted
	}
	return doc.K
}

// text skips a string of any of the four kinds.
func (s *scanner) text() {
	quote := s.source[s.at]
	end := string(quote)
	if triple := strings.Repeat(end, 3); s.peek(triple) {
		end = triple
	}
	s.at += len(end)
	for !s.done() {
		switch {
		case quote == '"' && s.peek(`\`):
			s.step()
			s.step()
		case s.peek(end):
			s.at += len(end)
			// Up to two more quotes may stand before the closing three.
			for len(end) == 3 && s.peek(string(quote)) {
				s.at++
			}
			return
		default:
			s.step()
		}
	}
}

func (s *scanner) skipSpace() {
	for s.peek(" ") || s.peek("\t") {
		s.at++
	}
}

// skipBlank skips white space, line ends and comments.
func (s *scanner) skipBlank() {
	for !s.done() {
		switch s.source[s.at] {
		case ' ', '\t', '\r', '\n':
			s.step()
		case '#':
			for !s.done() && s.source[s.at] != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

func (s *scanner) skipSeparators() {
	for s.skipBlank(); s.peek(","); s.skipBlank() {
		s.at++
	}
}

// step goes one byte on and counts lines.
func (s *scanner) step() {
	if s.done() {
		return
	}
	if s.source[s.at] == '\n' {
		s.line++
	}
	s.at++
}

func (s *scanner) done() bool              { return s.at >= len(s.source) }
func (s *scanner) peek(prefix string) bool { return strings.HasPrefix(s.source[s.at:], prefix) }

// mark keeps the first place of a key: [a] after [a.b] is a's second one.
func (s *scanner) mark(key string, line int) {
	if _, found := s.found[key]; !found {
		s.found[key] = line
	}
}
