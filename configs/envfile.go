package configs

import (
	"bytes"
	"fmt"
	"strings"
)

// ReadEnvFile reads a file of variables, as --env-file names one. It is
// refused when others can read it, since it holds a token as a rule.
func ReadEnvFile(path string) (map[string]string, error) {
	data, err := readPrivateFile(path)
	if err != nil {
		return nil, err
	}
	return ParseEnvFile(path, data)
}

// ParseEnvFile reads KEY=VALUE lines as the vendors' guides write them and a
// shell or Docker would read them: an optional export, comments, single
// quotes (taken as they are) and double quotes (with \n, \", \\ and \$), also
// over several lines. Variables inside values are not replaced. Errors name
// the line and never show it.
func ParseEnvFile(name string, data []byte) (map[string]string, error) {
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	vars := map[string]string{}
	for i := 0; i < len(lines); {
		used, key, value, why := envLine(lines[i:])
		if why != "" {
			return nil, fmt.Errorf("%s:%d: %s", name, i+1, why)
		}
		if key != "" {
			vars[key] = value
		}
		i += used
	}
	return vars, nil
}

// envLine reads the first variable of lines; key is empty for a blank line or
// a comment. used counts the lines it took.
func envLine(lines []string) (used int, key, value, why string) {
	line := strings.TrimSpace(lines[0])
	if line == "" || strings.HasPrefix(line, "#") {
		return 1, "", "", ""
	}
	if rest, found := strings.CutPrefix(line, "export"); found && strings.TrimLeft(rest, " \t") != rest {
		line = strings.TrimLeft(rest, " \t")
	}
	key, value, found := strings.Cut(line, "=")
	key = strings.TrimSpace(key)
	if !found || !envName.MatchString(key) {
		return 1, "", "", "is not KEY=VALUE"
	}
	value = strings.TrimLeft(value, " \t")
	if value == "" || (value[0] != '"' && value[0] != '\'') {
		return 1, key, strings.TrimSpace(beforeComment(value)), ""
	}
	quoted := strings.Join(append([]string{value}, lines[1:]...), "\n")
	value, after, closed := readQuoted(quoted)
	if !closed {
		return 1, "", "", "has a quote that is never closed"
	}
	used = 1 + strings.Count(quoted[:len(quoted)-len(after)], "\n")
	rest, _, _ := strings.Cut(after, "\n")
	if rest = strings.TrimSpace(rest); rest != "" && !strings.HasPrefix(rest, "#") {
		return 1, "", "", "goes on after the closing quote"
	}
	return used, key, value, ""
}

// beforeComment ends an unquoted value at a # that follows white space.
func beforeComment(value string) string {
	if strings.HasPrefix(value, "#") {
		return ""
	}
	for _, mark := range []string{" #", "\t#"} {
		value, _, _ = strings.Cut(value, mark)
	}
	return value
}

func readQuoted(text string) (value, after string, closed bool) {
	quote := text[0]
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return b.String(), text[i+1:], true
		case c == '\\' && quote == '"' && i+1 < len(text):
			i++
			b.WriteString(unescape(text[i]))
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case '"', '\\', '$', '`', '\'':
		return string(c)
	}
	return `\` + string(c)
}
