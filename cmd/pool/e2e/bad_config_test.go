package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestBadConfigurationStartsNothing(t *testing.T) {
	w := newWorld(t)
	good, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		says []string
	}{
		"unknown key":      {"[pool]\nname = \"web\"\nworkes = 4\n", []string{":3", "workes", "workers"}},
		"unknown table":    {"[pool]\nname = \"web\"\n[outpos]\nid = \"x\"\n", []string{":3", "outpos", "outpost"}},
		"wrong type":       {"[pool]\nname = \"web\"\nworkers = \"four\"\n", []string{":3", "workers", "number"}},
		"impossible value": {"[pool]\nname = \"web\"\n\nworkers = -1\n", []string{":4", "workers", "from 0"}},
		"not a word of it": {"[provider]\nkind = \"locl\"\n", []string{":2", "kind", "local"}},
		"no duration":      {"[worker]\nstop_grace = \"soon\"\n", []string{":2", "stop_grace", "90s"}},
		"bad name":         {"[pool]\nname = \"Web Pool\"\n", []string{":2", "name"}},
		"no TOML":          {"[pool\nname = \"web\"\n", []string{":2", "TOML"}},
		"a token in it":    {"[worker.env]\nTOKEN = \"" + otherToken + "\"\n", []string{":2", "token"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			w.write(w.file, c.text, 0o600)
			for _, args := range [][]string{{"up", "-d"}, {"up"}, {"config", "check"}, {"config", "show"}} {
				w.refuse(2, args, append(c.says, w.file)...)
			}
			if r := w.run("doctor"); r.code != 1 || !strings.Contains(r.out, w.file) {
				t.Errorf("%s\nwant a failed check of the file", r)
			}
			if name == "no TOML" || name == "bad name" {
				// Another pool than the one that the file means must not be reached.
				w.refuse(2, []string{"status"}, append(c.says, w.file)...)
				w.refuse(2, []string{"down"}, append(c.says, w.file)...)
			}
			w.noState()
		})
	}
	w.T = t
	w.write(w.file, string(good), 0o600)
	w.must("config", "check")
}

func TestABrokenFileDoesNotKeepAnyoneFromARunningPool(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	w.up()
	good, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	w.write(w.file, string(good)+"\n[snapshots]\nmaxx = \"1s\"\n", 0o600)
	if p := w.status(); p.Running != 1 {
		t.Errorf("%+v", p)
	}
	w.must("scale", "0", "--wait")
}

func TestConfigShowAndSchemaAreReadable(t *testing.T) {
	w := newWorld(t)
	var shown map[string]any
	if _, err := toml.Decode(w.must("config", "show").out, &shown); err != nil {
		t.Errorf("config show is no TOML: %v", err)
	}
	for _, table := range []string{"pool", "outpost", "worker", "restart", "logs"} {
		if shown[table] == nil {
			t.Errorf("config show leaves out [%s]", table)
		}
	}
	shownFile := filepath.Join(w.dir, "shown.toml")
	w.write(shownFile, w.must("config", "show").out, 0o600)
	w.must("config", "check", "--config", shownFile)
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal([]byte(w.must("config", "schema").out), &schema); err != nil || schema.Properties["pool"] == nil {
		t.Errorf("config schema: %v, %v", err, schema)
	}
	w.withoutFile()
	w.refuse(2, []string{"config", "check"}, "no pool.toml here", "--config", "pool init")
	w.refuse(2, []string{"config", "check", "--config", "nowhere.toml"}, filepath.Join(w.dir, "nowhere.toml"))
}

func TestBadCommandLines(t *testing.T) {
	w := newWorld(t)
	w.refuse(2, []string{"statsu"}, `"statsu"`, "--help")
	w.refuse(3, []string{"status"}, "pool up")
	w.refuse(3, []string{"scale", "2"}, "pool up")
	w.refuse(2, []string{"up", "--workers", "-1"}, "-1", "--workers")
	w.refuse(2, []string{"up", "--workers", "many"}, "many")
	w.refuse(2, []string{"up", "4"}, "--workers")
	w.refuse(2, []string{"up", "--wrokers", "4"}, "wrokers")
	w.refuse(2, []string{"status", "-o", "xml"}, "xml", "json")
	w.noState()
	w.set("pool.workers", 2)
	w.up()
	for _, size := range []string{"-1", "x", "1.5", ""} {
		w.checkRefusal(w.run("scale", size), 2, "scale")
	}
	w.checkRefusal(w.run("scale"), 2, "number")
	w.checkRefusal(w.run("scale", "1", "2"), 2, "number")
	w.checkRefusal(w.run("scale", "100000"), 1, "100000", "10000")
	for _, args := range [][]string{{"restart", "web-7"}, {"drain", "db-0"}, {"logs", "web-7"}, {"events", "7"}} {
		w.checkRefusal(w.run(args...), 1, args[1], "web-0, web-1")
	}
	w.checkRefusal(w.run("exec", "web-7", "--", "true"), 125, "web-7", "web-0, web-1")
	w.checkRefusal(w.run("down", "--now", "--leave"), 2, "exclude")
	if p := w.status(); p.Desired != 2 || p.Running != 2 {
		t.Errorf("something has changed: %+v", p)
	}
}

func TestTwoPoolsOfOneUserAreListed(t *testing.T) {
	w := newWorld(t)
	w.set("pool.workers", 1)
	w.up()
	first := w.status()
	second := filepath.Join(w.dir, "db.toml")
	text, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	w.write(second, strings.Replace(string(text), `"web"`, `"db"`, 1), 0o600)
	w.must("up", "-d", "--config", second)
	t.Cleanup(func() { w.run("--pool", "db", "down", "--now") })
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	w.env["POOL_CONFIG"] = ""
	w.checkRefusal(w.run("status"), 2, "db, web", "--pool")
	w.must("--pool", "web", "status")
	w.env["POOL_NAME"] = "db"
	if p := w.status(); p.Name != "db" || p.PID == first.PID {
		t.Errorf("%+v", p)
	}
	w.must("down", "--now")
	w.env["POOL_NAME"] = "web"
	if p := w.status(); p.Running != 1 {
		t.Errorf("the other pool was touched: %+v", p)
	}
}
