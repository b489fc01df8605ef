package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
)

// Hash tells whether a sandbox or its worker was made from the same
// configuration: 16 hexadecimal digits over the tables provider, sandbox,
// worker and network and over the outpost itself. How many workers there are,
// how they are watched and stopped, where the token comes from and what is
// logged make none of them outdated and are left out.
//
// Only what differs from the defaults counts, so that a newer version with
// another key does not make every running worker outdated.
func Hash(c Config) string {
	standard := Default()
	parts := map[string]any{}
	for _, table := range []struct {
		name      string
		value, as any
	}{
		{"provider", c.Provider, standard.Provider},
		{"sandbox", c.Sandbox, standard.Sandbox},
		{"worker", c.Worker, standard.Worker},
		{"network", c.Network, standard.Network},
	} {
		addDifferences(parts, table.name, reflect.ValueOf(table.value), reflect.ValueOf(table.as))
	}
	for key, value := range map[string]string{
		"outpost.id": c.Outpost.ID, "outpost.name": c.Outpost.Name, "outpost.api_url": c.Outpost.APIURL,
	} {
		parts[key] = value
	}
	// JSON writes the keys of maps in order. Strings, numbers and lists of
	// them always have a form in it.
	text, err := json.Marshal(parts)
	if err != nil {
		panic("hash of a configuration: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func addDifferences(parts map[string]any, at string, value, standard reflect.Value) {
	for _, f := range fieldsOf(value.Type()) {
		v, s := value.Field(f.index), standard.Field(f.index)
		key := keyIn(at, f.name)
		switch {
		case !f.hashed:
		case f.isTable():
			addDifferences(parts, key, v, s)
		case !reflect.DeepEqual(v.Interface(), s.Interface()) && !bothEmpty(v, s):
			parts[key] = plain(v)
		}
	}
}

// plain turns tables into maps of what is written in them, so that they too
// may get further keys.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Struct:
		written := map[string]any{}
		for _, f := range fieldsOf(v.Type()) {
			if value := v.Field(f.index); !value.IsZero() {
				written[f.name] = plain(value)
			}
		}
		return written
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Map:
		named := map[string]any{}
		for _, key := range v.MapKeys() {
			named[key.String()] = plain(v.MapIndex(key))
		}
		return named
	}
	return v.Interface()
}

// bothEmpty makes no difference between a list that is empty and none.
func bothEmpty(a, b reflect.Value) bool {
	return (a.Kind() == reflect.Slice || a.Kind() == reflect.Map) && a.Len() == 0 && b.Len() == 0
}
