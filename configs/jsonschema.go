package configs

import (
	"encoding/json"
	"reflect"
)

// Schema returns the JSON Schema (2020-12) of a configuration, for editors
// that complete and check TOML. What only several keys together show is left
// to pool config check.
func Schema() []byte {
	schema := tableSchema(reflect.TypeFor[Config](), reflect.ValueOf(Default()))
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "pool.toml"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("schema of the configuration: " + err.Error())
	}
	return append(text, '\n')
}

// tableSchema describes a struct. standard holds its defaults and is not valid
// where there are none, as in a list.
func tableSchema(table reflect.Type, standard reflect.Value) map[string]any {
	properties := map[string]any{}
	var needed []string
	for _, f := range fieldsOf(table) {
		var value reflect.Value
		if standard.IsValid() {
			value = standard.Field(f.index)
		}
		properties[f.name] = fieldSchema(f, value)
		if f.needed {
			needed = append(needed, f.name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if needed != nil {
		schema["required"] = needed
	}
	return schema
}

func fieldSchema(f field, standard reflect.Value) map[string]any {
	var schema map[string]any
	if f.isTable() {
		schema = tableSchema(f.kind, standard)
	} else {
		schema = valueSchema(f)
		if standard.IsValid() && !standard.IsZero() {
			schema["default"] = standard.Interface()
		}
	}
	if f.doc != "" {
		schema["description"] = f.doc
	}
	return schema
}

// Forms of durations and sizes, as units.go reads them. A schema cannot
// compare them, so their bounds are in no schema.
const (
	durationPattern = `^\s*[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+\s*$`
	bytesPattern    = `^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([KMGT](i?B)?|[KMGT]i|B)?\s*$`
)

func valueSchema(f field) map[string]any {
	switch f.kind {
	case durationType:
		return map[string]any{"type": "string", "pattern": durationPattern}
	case bytesType:
		return map[string]any{"type": []string{"string", "integer"}, "pattern": bytesPattern, "minimum": 0}
	}
	switch f.kind.Kind() {
	case reflect.String:
		schema := map[string]any{"type": "string"}
		if f.allowed != nil {
			schema["enum"] = f.allowed
		}
		if f.pattern != nil {
			schema["pattern"] = f.pattern.String()
		}
		return schema
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Float64:
		schema := map[string]any{"type": "number"}
		if f.kind.Kind() == reflect.Int {
			schema["type"] = "integer"
		}
		if low, high, bounded := f.bounds(); bounded {
			schema["minimum"], schema["maximum"] = low, high
		}
		return schema
	case reflect.Slice:
		return map[string]any{"type": "array", "items": elementSchema(f.kind.Elem())}
	case reflect.Map:
		schema := map[string]any{"type": "object", "additionalProperties": elementSchema(f.kind.Elem())}
		if f.envNames {
			schema["propertyNames"] = map[string]any{"pattern": envName.String()}
		}
		return schema
	}
	panic("no schema for " + f.kind.String())
}

func elementSchema(kind reflect.Type) map[string]any {
	schema := fieldSchema(field{kind: kind}, reflect.Value{})
	if kind == secretType {
		// One source and no second one.
		schema["minProperties"], schema["maxProperties"] = 1, 1
	}
	return schema
}
