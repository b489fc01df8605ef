package configs

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTemplateOfWhatWasFound(t *testing.T) {
	text := Template(TemplateInput{
		Name: "web", Workers: 4,
		CLI: "/home/ada/.local/bin/devin", CLIVersion: "devin 3000.6.7 (260a97c8)",
		Outpost: "outpost_env-2", Platform: "linux",
		Outposts:  []OutpostSeen{{"outpost_env-1", "macs", "macos"}, {"outpost_env-2", "web", "linux"}},
		TokenFile: "~/.config/pool/token", Bubblewrap: true, Docker: true, APIURL: "https://eu.example",
	})
	config, err := Parse("pool.toml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if config.Pool.Name != "web" || config.Pool.Workers != 4 || config.Outpost.ID != "outpost_env-2" || config.Outpost.APIURL != "https://eu.example" ||
		config.Outpost.TokenFile != "~/.config/pool/token" || config.Provider.Local.Isolation != "bwrap" {
		t.Errorf("what was found is not in it:\n%s", text)
	}
	for _, want := range []string{
		`# id = "outpost_env-1"   # macs, for macos; this machine is linux and cannot serve it`,
		"# The devin command is /home/ada/.local/bin/devin (devin 3000.6.7 (260a97c8)).",
		"# Docker is installed here",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
}

// Its commented keys must be right too: with them uncommented it still loads.
func TestTemplateOfNothing(t *testing.T) {
	text := string(Template(TemplateInput{}))
	if _, err := Parse("pool.toml", []byte(text)); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var full []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimPrefix(line, "# ")
		if strings.ContainsAny(line, "=[\"") || strings.HasPrefix(line, "npm") {
			full = append(full, line)
		}
	}
	source := strings.ReplaceAll(strings.Join(full, "\n"), "outpost_env-...", "outpost_env-1")
	source = strings.ReplaceAll(source, `token_env = "DEVIN_OUTPOSTS_TOKEN"   #`, "#")
	for _, prose := range []string{"bubblewrap was not", "sessions can read each"} {
		source = strings.ReplaceAll(source, prose, "# "+prose)
	}
	config, err := Parse("pool.toml", []byte(source))
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	if config.Sandbox.CPU != 2 || len(config.Worker.Repos) != 1 || len(config.Worker.SecretEnv) != 1 || config.Worker.Prepare == "" {
		t.Errorf("the commented keys were not all read:\n%s", source)
	}
}

// Names come from the account, paths from the machine: nothing in them may
// break the file or get a key into it.
func TestTemplateOfHostileFinds(t *testing.T) {
	word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"a\"\n[pool]\nworkers = 99", "x\\", "# y", "\u2028", "a\tb", "\x7f", "%s%d", "'''", "\r\nname = 'x'",
	}))
	rapid.Check(t, func(t *rapid.T) {
		in := TemplateInput{
			Name: word.Draw(t, "name"), CLI: word.Draw(t, "cli"), CLIVersion: word.Draw(t, "version"),
			Outposts:   []OutpostSeen{{"outpost_1", word.Draw(t, "outpost"), word.Draw(t, "platform")}},
			Platform:   word.Draw(t, "this platform"),
			TokenFile:  word.Draw(t, "file"),
			Bubblewrap: rapid.Bool().Draw(t, "bubblewrap"),
			Docker:     rapid.Bool().Draw(t, "docker"),
		}
		if rapid.Bool().Draw(t, "chosen") {
			in.Outpost = "outpost_1"
		}
		if strings.ContainsRune(in.TokenFile, 0) {
			t.Skip("no path has a zero byte")
		}
		text := Template(in)
		config, err := Parse("pool.toml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if config.Pool.Workers != 1 || config.Outpost.TokenFile != in.TokenFile || config.Outpost.ID != in.Outpost {
			t.Fatalf("what was found changed the file:\n%s", text)
		}
	})
}
