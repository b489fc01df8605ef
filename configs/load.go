package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// fileLimit bounds a configuration file, in bytes; a larger one is another
// file by mistake.
const fileLimit = 256 << 10

// Load reads and checks a configuration file. Relative paths in it mean its
// own folder, and ~ the home folder. The error is Problems when the file could
// be read and something in it is wrong.
func Load(path string) (*Config, error) {
	config, err := load(path)
	if err != nil {
		return nil, err
	}
	return config, nil
}

// load returns what could be read even where there are problems: enough to
// find a pool by, not to run one.
func load(path string) (*Config, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration %s: %w", path, err)
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration %s: %w; pool init writes a first one", path, bare(err))
	}
	if !info.Mode().IsRegular() || info.Size() > fileLimit {
		return nil, fmt.Errorf("the configuration %s is no file of at most 256 KiB; name the pool.toml itself", path)
	}
	data, err := os.ReadFile(absolute)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration %s: %w", path, bare(err))
	}
	config, problems := parse(path, data)
	home, homeErr := HomeDir(os.Getenv("HOME"))
	if homeErr != nil {
		home = ""
	}
	makePathsAbsolute(reflect.ValueOf(config).Elem(), filepath.Dir(absolute), home)
	if len(problems) > 0 {
		return config, problems
	}
	return config, nil
}

// Parse checks the text of a configuration; name stands for it in messages.
// Paths stay as they are written. The error is Problems: everything that is
// wrong, at its line, without any value of the file.
func Parse(name string, data []byte) (*Config, error) {
	config, problems := parse(name, data)
	if len(problems) > 0 {
		return nil, problems
	}
	return config, nil
}

func parse(name string, data []byte) (*Config, Problems) {
	config := Default()
	config.written = map[string]bool{}
	if len(data) > fileLimit {
		return &config, Problems{{File: name, Text: "is larger than 256 KiB; is it the right file?"}}
	}
	source := string(data)
	leaks := &leakScan{file: name}

	values := map[string]any{}
	if _, err := toml.Decode(source, &values); err != nil {
		leaks.source(source)
		return &config, append(leaks.problems, syntaxProblem(name, err)).inOrder()
	}
	if depth(values) > depthLimit {
		leaks.source(source)
		deep := Problem{File: name, Text: "holds tables or lists nested too deeply for a configuration"}
		return &config, append(leaks.problems, deep).inOrder()
	}
	lines := findPositions(source)
	leaks.lines = lines
	leaks.tree("", "", values)
	leaks.source(source)

	d := &decoder{file: name, lines: lines, written: config.written, problems: leaks.problems}
	d.table("", values, reflect.ValueOf(&config).Elem())
	for _, f := range check(&config) {
		d.fail(f.key, "%s", f.text)
	}
	return &config, d.problems.inOrder()
}

// depthLimit is far beyond any key of ours; without it the names of keys would
// grow with the square of a hostile file.
const depthLimit = 32

func depth(value any) int {
	deepest := 0
	if table, ok := value.(map[string]any); ok {
		for _, element := range table {
			deepest = max(deepest, 1+depth(element))
		}
	}
	elements, _ := asList(value)
	for _, element := range elements {
		deepest = max(deepest, 1+depth(element))
	}
	return deepest
}

// repeated is what the library repeats of a file in its messages: what it
// quotes, and numbers.
var repeated = regexp.MustCompile("\"[^\"]*\"|'[^']*'|`[^`]*`|[0-9]{5,}")

// withoutContent keeps single characters, such as the ']' that is missing.
func withoutContent(message string) string {
	return repeated.ReplaceAllStringFunc(message, func(found string) string {
		if len(found) <= len(`'\n'`) && !strings.ContainsAny(found, "0123456789") {
			return found
		}
		return "…"
	})
}

// syntaxProblem takes the library's message without what it quotes, which
// could be a secret.
func syntaxProblem(name string, err error) Problem {
	var syntax toml.ParseError
	if !errors.As(err, &syntax) {
		return Problem{File: name, Text: "is not TOML"}
	}
	text := withoutContent(syntax.Message)
	if first, _, more := strings.Cut(text, "\n"); more {
		text = first
	}
	return Problem{File: name, Line: syntax.Position.Line, Text: "is not TOML here: " + text}
}

// makePathsAbsolute completes every field with a path tag, also in lists and
// tables of tables.
func makePathsAbsolute(table reflect.Value, folder, home string) {
	for _, f := range fieldsOf(table.Type()) {
		value := table.Field(f.index)
		switch value.Kind() {
		case reflect.Struct:
			makePathsAbsolute(value, folder, home)
		case reflect.String:
			if f.path {
				value.SetString(absolutePath(value.String(), folder, home))
			}
		case reflect.Slice:
			for i := range value.Len() {
				if f.path {
					value.Index(i).SetString(absolutePath(value.Index(i).String(), folder, home))
				}
			}
		case reflect.Map:
			if f.kind.Elem().Kind() == reflect.Struct {
				for _, key := range value.MapKeys() {
					element := reflect.New(f.kind.Elem()).Elem()
					element.Set(value.MapIndex(key))
					makePathsAbsolute(element, folder, home)
					value.SetMapIndex(key, element)
				}
			}
		}
	}
}

func absolutePath(path, folder, home string) string {
	switch {
	case path == "":
		return ""
	case path == "~" && home != "":
		return home
	case strings.HasPrefix(path, "~/") && home != "":
		return filepath.Join(home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(folder, path)
}
