package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

const referenceHead = "# Configuration\n\n" +
	"<!-- Generated from the types in configs/ by: go test ./configs -update -->\n\n" +
	"A pool is configured by a TOML file, `pool.toml`. Everything has a default but the outpost, and that may come from the environment: an empty file is fine.\n" +
	"`pool init` writes a first file, `pool config check` says what is wrong with one, `pool config show` prints all that is in force.\n\n" +
	"- **Durations** are written as `\"90s\"`, `\"1h30m\"` or `\"250ms\"`.\n" +
	"- **Sizes** are written as `\"4Gi\"` or `\"10MB\"`: KB, MB, GB, TB are powers of 1000, Ki, Mi, Gi, Ti powers of 1024. A number without a unit counts bytes.\n" +
	"- **Paths** are relative to the file's own folder; `~` is your home folder.\n" +
	"- **Secrets** are named, not written. A value that looks like a token anywhere in the file, in a comment too, is an error; a secret file that others can read is refused.\n" +
	"- **Unknown keys** are errors. So are keys that only a later version reads.\n\n" +
	"Outpost, address and token are looked for on the command line first, then in this file, then in the environment: `OUTPOST_ID`, `DEVIN_OUTPOST_ID`; `DEVIN_API_URL`, of which a trailing `/opbeta` is dropped; `DEVIN_OUTPOSTS_TOKEN`, `DEVIN_API_TOKEN`. " +
	"`--env-file FILE` reads such variables from a file, and they come before the environment's own.\n"

// Reference returns docs/configuration.md: every table and key with its form,
// its default and its meaning.
func Reference() []byte {
	var b strings.Builder
	b.WriteString(referenceHead)
	writeTables(&b, "", reflect.TypeFor[Config](), reflect.ValueOf(Default()))
	return []byte(b.String())
}

func writeTables(b *strings.Builder, at string, table reflect.Type, standard reflect.Value) {
	for _, f := range fieldsOf(table) {
		key := keyIn(at, f.name)
		switch {
		case f.isTable():
			fmt.Fprintf(b, "\n## `[%s]`\n\n%s\n\n", key, f.doc)
			writeKeys(b, f.kind, standard.Field(f.index))
			writeTables(b, key, f.kind, standard.Field(f.index))
		case f.kind.Kind() == reflect.Slice && f.kind.Elem().Kind() == reflect.Struct:
			fmt.Fprintf(b, "\n## `[[%s]]`\n\n%s\n\n", key, f.doc)
			writeKeys(b, f.kind.Elem(), reflect.Zero(f.kind.Elem()))
		case f.kind.Kind() == reflect.Map && f.kind.Elem().Kind() == reflect.Struct:
			fmt.Fprintf(b, "\n## `[%s.NAME]`\n\n%s\n\n", key, f.doc)
			writeKeys(b, f.kind.Elem(), reflect.Zero(f.kind.Elem()))
		}
	}
}

func writeKeys(b *strings.Builder, table reflect.Type, standard reflect.Value) {
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, f := range fieldsOf(table) {
		if f.isTable() {
			continue
		}
		written := "none"
		if f.needed {
			written = "must be written"
		} else if text := defaultText(standard.Field(f.index)); text != "" {
			written = "`" + text + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.name, cell(f.form()), cell(written), cell(f.doc))
	}
}

// cell keeps a text inside its column.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// defaultText writes a default as the file would have it; empty when nothing
// is preset.
func defaultText(value reflect.Value) string {
	switch v := value.Interface().(type) {
	case Duration:
		return strconv.Quote(v.String())
	case Bytes:
		if v == 0 {
			return ""
		}
		return strconv.Quote(v.String())
	case string:
		if v == "" {
			return ""
		}
		return strconv.Quote(v)
	case []string:
		if len(v) == 0 {
			return ""
		}
		return "[" + quotedList(v) + "]"
	case int:
		return strconv.Itoa(v)
	case float64:
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}
