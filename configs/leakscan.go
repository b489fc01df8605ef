package configs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const namedNotWritten = "secrets are named here, not written: use token_env, token_file or token_command of [outpost], git_token_file of [worker], or worker.secret_env"

// leakScan looks for secrets in everything a file holds: values, unknown keys,
// comments.
type leakScan struct {
	file     string
	lines    positions
	problems Problems
	seen     []string // values that are reported already
}

func (s *leakScan) report(line int, key, kind string) {
	s.problems = append(s.problems, Problem{
		File: s.file,
		Line: line,
		Key:  key,
		Text: fmt.Sprintf("looks like %s; %s", kind, namedNotWritten),
	})
}

// tree looks at one value and everything in it. name is its last key.
func (s *leakScan) tree(at, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if tokenKind(key) != "" {
				s.seen = append(s.seen, key)
				s.report(s.lines.line(keyIn(at, key)), at, "a secret used as a key")
			}
			s.tree(keyIn(at, key), key, v[key])
		}
	case string:
		if kind := textKind(name, v); kind != "" {
			s.seen = append(s.seen, v)
			s.report(s.lines.line(at), at, kind)
		}
	default:
		elements, _ := asList(value)
		for i, element := range elements {
			s.tree(elementOf(at, i), nameBefore(elements, i, name), element)
		}
	}
}

// nameBefore lets the value in ["--token", "…"] be judged by its flag.
func nameBefore(elements []any, i int, name string) string {
	if i > 0 {
		if flag, ok := elements[i-1].(string); ok && strings.HasPrefix(flag, "--") && !strings.Contains(flag, "=") {
			return strings.TrimLeft(flag, "-")
		}
	}
	return name
}

var assignment = regexp.MustCompile(`(?:^|[\s;&|-])([A-Za-z_][A-Za-z0-9_-]*)=["']?([^\s"';]+)`)

// textKind judges a text as the value of its key and by every NAME=value in
// it, as scripts and arguments have them.
func textKind(name, text string) string {
	if kind := secretKind(name, text); kind != "" {
		return kind
	}
	for _, match := range assignment.FindAllStringSubmatch(text, -1) {
		if kind := secretKind(match[1], match[2]); kind != "" {
			return kind
		}
	}
	return ""
}

// source looks at the lines themselves, for comments above all.
func (s *leakScan) source(text string) {
	for i, line := range strings.Split(text, "\n") {
		for _, shape := range tokenShapes {
			found := strings.TrimLeft(shape.pattern.FindString(line), " \t\"'`=:,;([{<>/@#|&")
			if found != "" && !s.reported(found) {
				s.report(i+1, "", shape.kind)
			}
		}
	}
}

func (s *leakScan) reported(found string) bool {
	return slices.ContainsFunc(s.seen, func(value string) bool { return strings.Contains(value, found) })
}
