package configs

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

const referenceFile = "../docs/configuration.md"

func TestReferenceIsUpToDate(t *testing.T) {
	want := Reference()
	if *update {
		if err := os.MkdirAll("../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(referenceFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/configuration.md is out of date; run: go test ./configs -update\n%s", diff)
	}
}

// eachField visits every key, also those in lists and tables of tables.
func eachField(at string, table reflect.Type, visit func(key string, f field)) {
	for _, f := range fieldsOf(table) {
		key := keyIn(at, f.name)
		visit(key, f)
		inner := f.kind
		if inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			eachField(key, inner, visit)
		}
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	reference := string(Reference())
	eachField("", reflect.TypeFor[Config](), func(key string, f field) {
		if !strings.HasSuffix(f.doc, ".") {
			t.Errorf("%s has no sentence as its doc: %q", key, f.doc)
		}
		if (f.pattern == nil) != (f.patternDoc == "") || (f.min == "") != (f.max == "") {
			t.Errorf("%s has half a pattern or half a bound", key)
		}
		if low, high, bounded := f.bounds(); bounded && low > high {
			t.Errorf("%s is bounded from %v to %v", key, low, high)
		}
		if slices.Contains(laterKeys, key) {
			t.Errorf("%s is read and on the list of later keys", key)
		}
		if f.form() == "" || !strings.Contains(reference, f.name) {
			t.Errorf("%s is not in the reference", key)
		}
	})
}

// Every key of design §13 is either read or known as a later one.
func TestEveryKeyOfTheDesignIsKnown(t *testing.T) {
	known := slices.Clone(laterKeys)
	eachField("", reflect.TypeFor[Config](), func(key string, _ field) { known = append(known, key) })
	for table, keys := range map[string]string{
		"pool":     "name workers state_dir on_down keep_failed orphan_for parallel_starts max_unavailable",
		"outpost":  "id name api_url token_env token_file token_command poll_interval",
		"provider": "kind local docker kubernetes coreweave daytona e2b tensorlake cloudflare",
		"sandbox":  "image cpu memory disk gpu lifetime rotate_before",
		"worker": "command args env secret_env chrome_path display prepare repos git_username git_token_env git_token_file " +
			"between_sessions start_window stop_grace drain_limit deaf_after probe",
		"restart": "initial max jitter reset_after crash_loop_after replace_after",
		"logs":    "max_size max_files line_limit format level",
		"network": "proxy no_proxy ca_file",
		"":        "snapshot schedule autoscale control metrics notify",
	} {
		for name := range strings.FieldsSeq(keys) {
			if !slices.Contains(known, keyIn(table, name)) {
				t.Errorf("%s is unknown", keyIn(table, name))
			}
		}
	}
	for _, key := range laterKeys {
		source := "[" + key + "]\nx = 1"
		if _, err := Parse("p", []byte(source)); err == nil || !strings.Contains(err.Error(), key+": is not supported by this version") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A schema that refuses the defaults or what the examples hold would turn
// editors against good files.
func TestSchemaAllowsTheDefaults(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jsonOf(reflect.ValueOf(Default())))
	if err != nil {
		t.Fatal(err)
	}
	var defaults any
	if err := json.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	for _, problem := range against("", schema, defaults) {
		t.Error(problem)
	}
	for _, wrong := range []string{
		`{"pool":{"workers":-1}}`, `{"pool":{"nmae":"x"}}`, `{"provider":{"local":{"isolation":"x"}}}`,
		`{"worker":{"stop_grace":"30"}}`, `{"worker":{"repos":[{}]}}`, `{"worker":{"secret_env":{"A":{"x":"y"}}}}`, `{"sandbox":{"memory":"4Go"}}`,
	} {
		var value any
		if err := json.Unmarshal([]byte(wrong), &value); err != nil {
			t.Fatal(err)
		}
		if len(against("", schema, value)) == 0 {
			t.Errorf("the schema allows %s", wrong)
		}
	}
}

// jsonOf is a table under its TOML names, without what is not set.
func jsonOf(table reflect.Value) map[string]any {
	values := map[string]any{}
	for _, f := range fieldsOf(table.Type()) {
		value := table.Field(f.index)
		switch {
		case f.isTable():
			values[f.name] = jsonOf(value)
		case !value.IsZero():
			values[f.name] = value.Interface()
		}
	}
	return values
}

// against checks a value by the part of JSON Schema that Schema uses.
func against(at string, schema map[string]any, value any) (problems []string) {
	switch v := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, element := range v {
			inner, known := properties[name].(map[string]any)
			if !known {
				inner, known = schema["additionalProperties"].(map[string]any)
			}
			if !known {
				problems = append(problems, at+"."+name+" is no property")
				continue
			}
			problems = append(problems, against(at+"."+name, inner, element)...)
		}
		needed, _ := schema["required"].([]any)
		for _, name := range needed {
			if _, found := v[name.(string)]; !found {
				problems = append(problems, at+" lacks "+name.(string))
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, element := range v {
			problems = append(problems, against(at+"[]", items, element)...)
		}
	case string:
		if pattern, found := schema["pattern"].(string); found && !regexp.MustCompile(pattern).MatchString(v) {
			problems = append(problems, at+" does not match "+pattern)
		}
		if allowed, found := schema["enum"].([]any); found && !slices.Contains(allowed, any(v)) {
			problems = append(problems, at+" is not allowed")
		}
	case float64:
		if low, found := schema["minimum"].(float64); found && v < low {
			problems = append(problems, at+" is too small")
		}
	}
	return problems
}

func TestTheDefaultsKeepTheirOwnBounds(t *testing.T) {
	shown := Show(Default())
	config, err := Parse("defaults", shown)
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	config.written = nil
	if diff := cmp.Diff(Default(), *config, cmp.AllowUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestShowIsReadBack(t *testing.T) {
	for _, file := range []string{"examples/minimal.toml", "examples/team.toml"} {
		config, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		shown := Show(*config)
		again, err := Parse("shown", shown)
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, shown)
		}
		again.written, config.written = nil, nil
		if diff := cmp.Diff(*config, *again, cmp.AllowUnexported(Config{})); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}
