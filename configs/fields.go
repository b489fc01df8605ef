package configs

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// field is one key as its struct tags describe it.
type field struct {
	name       string
	index      int
	kind       reflect.Type
	doc        string
	allowed    []string
	later      []string
	min, max   string
	pattern    *regexp.Regexp
	patternDoc string
	path       bool
	needed     bool
	hashed     bool
	envNames   bool
}

var (
	durationType = reflect.TypeFor[Duration]()
	bytesType    = reflect.TypeFor[Bytes]()
	secretType   = reflect.TypeFor[Secret]()
)

// fieldsOf lists the keys of a table in the order of its struct.
func fieldsOf(table reflect.Type) []field {
	var fields []field
	for i := range table.NumField() {
		member := table.Field(i)
		name, _, _ := strings.Cut(member.Tag.Get("toml"), ",")
		if name == "" || name == "-" {
			continue
		}
		f := field{
			name:       name,
			index:      i,
			kind:       member.Type,
			doc:        member.Tag.Get("doc"),
			allowed:    words(member.Tag.Get("allowed")),
			later:      words(member.Tag.Get("later")),
			min:        member.Tag.Get("min"),
			max:        member.Tag.Get("max"),
			patternDoc: member.Tag.Get("patternDoc"),
			path:       member.Tag.Get("path") != "",
			needed:     member.Tag.Get("needed") != "",
			hashed:     member.Tag.Get("hash") != "-",
			envNames:   member.Tag.Get("names") == "env",
		}
		if pattern := member.Tag.Get("pattern"); pattern != "" {
			f.pattern = regexp.MustCompile(pattern)
		}
		fields = append(fields, f)
	}
	return fields
}

func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, "|")
}

// isTable reports whether the key is a table of its own, like [pool].
func (f field) isTable() bool { return f.kind.Kind() == reflect.Struct }

// bounds returns min and max in the field's own unit, as floats.
func (f field) bounds() (low, high float64, bounded bool) {
	if f.min == "" {
		return 0, 0, false
	}
	return boundOf(f.kind, f.min), boundOf(f.kind, f.max), true
}

// boundOf reads a bound of a tag. A wrong tag is a mistake in this package,
// which its tests find.
func boundOf(kind reflect.Type, text string) float64 {
	switch kind {
	case durationType:
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil {
			panic(fmt.Sprintf("tag %q: %v", text, err))
		}
		return float64(d)
	case bytesType:
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil {
			panic(fmt.Sprintf("tag %q: %v", text, err))
		}
		return float64(b)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("tag %q: %v", text, err))
	}
	return value
}

// form says in words what a value of this key looks like, for errors and the
// reference.
func (f field) form() string {
	switch {
	case len(f.allowed) == 1:
		return strconv.Quote(f.allowed[0]) + ", the only one so far"
	case f.allowed != nil:
		return "one of " + quotedList(f.allowed)
	case f.path && f.kind.Kind() == reflect.Slice:
		return "a list of paths"
	case f.path:
		return "a path"
	case f.pattern != nil:
		return f.patternDoc
	}
	form := formOf(f.kind)
	if f.min != "" {
		form += fmt.Sprintf(", from %s to %s", f.min, f.max)
	}
	return form
}

func formOf(kind reflect.Type) string {
	switch kind {
	case durationType:
		return `a duration such as "90s" or "1h30m"`
	case bytesType:
		return `a size such as "4Gi" or "10MB"`
	case secretType:
		return `a table such as {env = "NAME"}, {file = "PATH"} or {command = "…"}`
	}
	switch kind.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Struct {
			return "a list of tables"
		}
		return "a list of texts"
	case reflect.Map:
		if kind.Elem().Kind() == reflect.Struct {
			return "a table of tables"
		}
		return "a table of texts"
	case reflect.Struct:
		return "a table"
	}
	panic("no form for " + kind.String())
}

func quotedList(list []string) string {
	quoted := make([]string, len(list))
	for i, word := range list {
		quoted[i] = strconv.Quote(word)
	}
	return strings.Join(quoted, ", ")
}
