package configs

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
)

// Version is this program's version as messages name it. main sets it once,
// before anything is parsed; empty means what the Go tool wrote into the
// binary.
var Version string

func version() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// laterKeys are keys and tables of design §13 that this version does not read
// yet. Whoever adds one as a struct field takes it out here; a test compares.
var laterKeys = words("pool.orphan_for|pool.on_down|pool.keep_failed" +
	"|provider.docker|provider.kubernetes|provider.coreweave|provider.daytona|provider.e2b|provider.tensorlake|provider.cloudflare" +
	"|sandbox.image|sandbox.gpu|sandbox.lifetime|sandbox.rotate_before" +
	"|worker.between_sessions|worker.probe" +
	"|snapshot|schedule|autoscale|control|metrics|notify")

// unknownKey says why a key is not accepted, and what may have been meant.
func unknownKey(at, name string, siblings []field) string {
	full := keyIn(at, name)
	for _, later := range laterKeys {
		if full == later {
			return fmt.Sprintf("is not supported by this version (%s); take it out or use a newer pool", version())
		}
	}
	names := make([]string, len(siblings))
	for i, f := range siblings {
		names[i] = f.name
	}
	if near := suggestion(name, names); near != "" {
		return "is not a key" + where(at) + near
	}
	if tables := tablesWith(name); len(tables) > 0 {
		return fmt.Sprintf("is not a key%s; it belongs to %s", where(at), strings.Join(tables, " or "))
	}
	return fmt.Sprintf("is not a key%s; known are %s", where(at), strings.Join(names, ", "))
}

func where(at string) string {
	if at == "" {
		return " of this file"
	}
	if strings.Contains(at, "[") {
		return " of an entry of " + at[:strings.IndexByte(at, '[')]
	}
	return " of [" + at + "]"
}

// tablesWith lists the tables that have a key of this name.
func tablesWith(name string) []string {
	var found []string
	var look func(at string, table reflect.Type)
	look = func(at string, table reflect.Type) {
		for _, f := range fieldsOf(table) {
			if f.name == name && at != "" {
				found = append(found, "["+at+"]")
			}
			if f.isTable() {
				look(keyIn(at, f.name), f.kind)
			}
		}
	}
	look("", reflect.TypeFor[Config]())
	return found
}

// suggestion is `; did you mean "…"?` when one of the words is near, else
// empty.
func suggestion(written string, known []string) string {
	if len(written) > 64 {
		return "" // no slip of the finger, and long to compare
	}
	best, nearest := "", len(written)/3+1
	for _, word := range known {
		if d := distance(strings.ToLower(written), word); d <= nearest && (best == "" || d < nearest) {
			best, nearest = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance counts the letters to insert, drop, change or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
