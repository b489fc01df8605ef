package configs

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// decoder puts what the TOML library read into the structs. The library's own
// way ends at the first wrong value and ignores unknown keys; this one reports
// everything, each at its line.
type decoder struct {
	file     string
	lines    positions
	written  map[string]bool
	problems Problems
}

func (d *decoder) fail(key, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		File: d.file,
		Line: d.lines.line(key),
		Key:  key,
		Text: fmt.Sprintf(format, args...),
	})
}

// table fills a struct. Keys that are not written keep their defaults.
func (d *decoder) table(at string, values map[string]any, into reflect.Value) {
	fields := fieldsOf(into.Type())
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key := keyIn(at, name)
		known := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if known < 0 {
			d.fail(key, "%s", unknownKey(at, name, fields))
			continue
		}
		d.written[key] = true
		d.value(key, values[name], into.Field(fields[known].index), fields[known])
	}
	for _, f := range fields {
		if written, found := values[f.name]; f.needed && (!found || written == "") {
			d.fail(keyIn(at, f.name), "is missing; write %s", f.form())
		}
	}
}

func (d *decoder) value(key string, value any, into reflect.Value, f field) {
	if f.kind == durationType || f.kind == bytesType {
		d.unit(key, value, into, f)
		return
	}
	switch f.kind.Kind() {
	case reflect.Struct:
		if values, ok := d.expect(key, value, f).(map[string]any); ok {
			d.table(key, values, into)
		}
	case reflect.String:
		if text, ok := d.expect(key, value, f).(string); ok && d.textAllowed(key, text, f) {
			into.SetString(text)
		}
	case reflect.Bool:
		if yes, ok := d.expect(key, value, f).(bool); ok {
			into.SetBool(yes)
		}
	case reflect.Int:
		if n, ok := d.expect(key, value, f).(int64); ok && d.inBounds(key, float64(n), f) {
			into.SetInt(n)
		}
	case reflect.Float64:
		if n, ok := asFloat(d.expect(key, value, f)); ok && d.inBounds(key, n, f) {
			into.SetFloat(n)
		}
	case reflect.Slice:
		d.list(key, value, into, f)
	case reflect.Map:
		d.names(key, value, into, f)
	}
}

// unit reads a duration or a size. A size may be a bare number of bytes; a
// duration without a unit could be anything and is refused.
func (d *decoder) unit(key string, value any, into reflect.Value, f field) {
	text, ok := value.(string)
	if number, isInt := value.(int64); isInt && f.kind == bytesType {
		text, ok = fmt.Sprint(number), true
	}
	if !ok {
		d.fail(key, "must be %s, in quotes; it is %s", f.form(), foundForm(value))
		return
	}
	parsed := reflect.New(f.kind)
	if err := parsed.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
		d.fail(key, "must be %s; it is %v", f.form(), err)
		return
	}
	if d.inBounds(key, float64(parsed.Elem().Int()), f) {
		into.SetInt(parsed.Elem().Int())
	}
}

func (d *decoder) list(key string, value any, into reflect.Value, f field) {
	elements, ok := asList(value)
	if !ok {
		d.fail(key, "must be %s; it is %s", f.form(), foundForm(value))
		return
	}
	made := reflect.MakeSlice(f.kind, len(elements), len(elements))
	for i, element := range elements {
		if f.path && element == "" {
			d.fail(elementOf(key, i), "is empty; write a path")
		}
		one := field{kind: f.kind.Elem(), path: f.path}
		d.value(elementOf(key, i), element, made.Index(i), one)
	}
	into.Set(made)
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (d *decoder) names(key string, value any, into reflect.Value, f field) {
	values, ok := d.expect(key, value, f).(map[string]any)
	if !ok {
		return
	}
	made := reflect.MakeMap(f.kind)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		element := reflect.New(f.kind.Elem()).Elem()
		if f.envNames && !envName.MatchString(name) {
			d.fail(keyIn(key, name), "is no name of a variable; letters, digits and _ are allowed, and no digit first")
		}
		d.value(keyIn(key, name), values[name], element, field{kind: f.kind.Elem()})
		made.SetMapIndex(reflect.ValueOf(name), element)
	}
	into.Set(made)
}

// expect returns value when it has the field's form, else it reports and
// returns nil.
func (d *decoder) expect(key string, value any, f field) any {
	fits := false
	switch value.(type) {
	case string:
		fits = f.kind.Kind() == reflect.String
	case bool:
		fits = f.kind.Kind() == reflect.Bool
	case int64:
		fits = f.kind.Kind() == reflect.Int || f.kind.Kind() == reflect.Float64
	case float64:
		fits = f.kind.Kind() == reflect.Float64
	case map[string]any:
		fits = f.kind.Kind() == reflect.Struct || f.kind.Kind() == reflect.Map
	}
	if fits {
		return value
	}
	d.fail(key, "must be %s; it is %s", f.form(), foundForm(value))
	return nil
}

func (d *decoder) textAllowed(key, text string, f field) bool {
	switch {
	case strings.ContainsRune(text, 0):
		d.fail(key, "holds a zero byte, which no program can be given")
	case slices.Contains(f.later, text):
		d.fail(key, "%q is not supported by this version (%s); allowed: %s", text, version(), quotedList(f.allowed))
	case f.allowed != nil && !slices.Contains(f.allowed, text):
		d.fail(key, "must be %s%s", f.form(), suggestion(text, f.allowed))
	case f.pattern != nil && !f.pattern.MatchString(text):
		d.fail(key, "must be %s", f.form())
	default:
		return true
	}
	return false
}

func (d *decoder) inBounds(key string, value float64, f field) bool {
	low, high, bounded := f.bounds()
	// Written this way round, since NaN is below and above nothing.
	if bounded && !(value >= low && value <= high) {
		d.fail(key, "must be %s", f.form())
		return false
	}
	return true
}

func asFloat(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// asList takes both forms in which the library gives a list.
func asList(value any) ([]any, bool) {
	switch list := value.(type) {
	case []any:
		return list, true
	case []map[string]any:
		elements := make([]any, len(list))
		for i := range list {
			elements[i] = list[i]
		}
		return elements, true
	}
	return nil, false
}

// foundForm names what was written, never its content.
func foundForm(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a point"
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "a list"
	}
	return "something else"
}
