package configs

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestAnEmptyFileIsTheDefaults(t *testing.T) {
	config, err := Parse("pool.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.written = map[string]bool{}
	if !reflect.DeepEqual(*config, want) {
		t.Errorf("got %+v, want the defaults %+v", *config, want)
	}
}

// Each wrong file gets exactly these lines and no other.
func TestWrongFiles(t *testing.T) {
	Version = "1.2"
	t.Cleanup(func() { Version = "" })
	for name, c := range map[string]struct {
		source string
		want   []string // beginnings, or with … a beginning and an end
	}{
		"unknown key":           {"[pool]\nworker = 3", []string{`p:2: pool.worker: is not a key of [pool]; did you mean "workers"?`}},
		"swapped letters":       {"[worker]\nprepaer = ''", []string{`p:2: worker.prepaer: is not a key of [worker]; did you mean "prepare"?`}},
		"unknown table":         {"\n[netwrok]\nproxy = 'x'", []string{`p:2: netwrok: is not a key of this file; did you mean "network"?`}},
		"key in another table":  {"[pool]\nisolation = 'none'", []string{"p:2: pool.isolation: is not a key of [pool]; it belongs to [provider.local]"}},
		"case counts":           {"[pool]\nName = 'web'", []string{`p:2: pool.Name: is not a key of [pool]; did you mean "name"?`}},
		"later key":             {"[sandbox]\nimage = 'x'", []string{"p:2: sandbox.image: is not supported by this version (1.2)"}},
		"later table":           {"[pool]\n\n[[schedule]]\ncron = '* * * * *'", []string{"p:3: schedule: is not supported by this version (1.2)"}},
		"later provider":        {"[provider]\nkind = 'docker'\n[provider.docker]\nhost = 'x'", []string{`p:2: provider.kind: "docker" is not supported by this version (1.2); allowed: "local"`, "p:3: provider.docker: is not supported by this version (1.2)"}},
		"later word":            {"[provider]\nkind = 'docker'", []string{`p:2: provider.kind: "docker" is not supported by this version (1.2); allowed: "local"`}},
		"wrong word":            {"[provider.local]\nisolation = 'bubblewrap'", []string{`p:2: provider.local.isolation: must be one of "auto", "none", "bwrap"`}},
		"near word":             {"[provider.local]\nisolation = 'bwarp'", []string{`p:2: provider.local.isolation: must be one of "auto", "none", "bwrap"; did you mean "bwrap"?`}},
		"text for a number":     {"[pool]\nworkers = '4'", []string{"p:2: pool.workers: must be a whole number, from 0 to 4096; it is text"}},
		"point in a number":     {"[pool]\nworkers = 4.0", []string{"p:2: pool.workers: must be a whole number, from 0 to 4096; it is a number with a point"}},
		"negative":              {"pool.workers = -1", []string{"p:1: pool.workers: must be a whole number, from 0 to 4096"}},
		"too many":              {"pool = {workers = 5000}", []string{"p:1: pool.workers: must be a whole number, from 0 to 4096"}},
		"number for text":       {"[pool]\nname = 4", []string{"p:2: pool.name: must be 1 to 40 of a–z, 0–9 and -, not at either end; it is a whole number"}},
		"name with capitals":    {"[pool]\nname = 'Web'", []string{"p:2: pool.name: must be 1 to 40"}},
		"name ends in a dash":   {"[pool]\nname = 'web-'", []string{"p:2: pool.name: must be 1 to 40"}},
		"name too long":         {"[pool]\nname = '" + strings.Repeat("a", 41) + "'", []string{"p:2: pool.name: must be 1 to 40"}},
		"table for text":        {"[pool.name]\nx = 1", []string{"p:1: pool.name: must be 1 to 40 of a–z, 0–9 and -, not at either end; it is a table"}},
		"text for a table":      {"pool = 'web'", []string{"p:1: pool: must be a table; it is text"}},
		"text for a list":       {"[worker]\ncommand = 'devin worker'", []string{"p:2: worker.command: must be a list of texts; it is text"}},
		"number in a list":      {"[worker]\nargs = ['a',\n  3]", []string{"p:3: worker.args[1]: must be text; it is a whole number"}},
		"date":                  {"[pool]\nworkers = 2026-12-01", []string{"p:2: pool.workers: must be a whole number, from 0 to 4096; it is a date"}},
		"duration as a number":  {"[worker]\nstop_grace = 30", []string{`p:2: worker.stop_grace: must be a duration such as "90s" or "1h30m", from 0s to 1h, in quotes; it is a whole number`}},
		"duration without unit": {"[worker]\nstop_grace = '30'", []string{`p:2: worker.stop_grace: must be a duration such as "90s" or "1h30m", from 0s to 1h; it is not a duration`}},
		"negative duration":     {"[worker]\ndrain_limit = '-1s'", []string{"p:2: worker.drain_limit: must be a duration"}},
		"too long":              {"[worker]\nstop_grace = '2h'", []string{"p:2: worker.stop_grace: must be a duration"}},
		"size in unknown unit":  {"[sandbox]\nmemory = '4Go'", []string{"p:2: sandbox.memory: must be a size"}},
		"size too small":        {"[sandbox]\nmemory = 4", []string{"p:2: sandbox.memory: must be a size"}},
		"no cpu":                {"[sandbox]\ncpu = 0", []string{"p:2: sandbox.cpu: must be a number, from 0.01 to 4096"}},
		"cpu is not a number":   {"[sandbox]\ncpu = nan", []string{"p:2: sandbox.cpu: must be a number, from 0.01 to 4096"}},
		"jitter":                {"[restart]\njitter = 1.5", []string{"p:2: restart.jitter: must be a number, from 0 to 1"}},
		"initial above max":     {"[restart]\ninitial = '10m'", []string{"p:2: restart.initial: is longer than restart.max, which is 5m"}},
		"line above file":       {"[logs]\nmax_size = '64KB'\nline_limit = '1MB'", []string{"p:3: logs.line_limit: is more than half of logs.max_size, which is 64KB"}},
		"zero byte":             {"[worker]\nprepare = \"a\\u0000b\"", []string{"p:2: worker.prepare: holds a zero byte"}},
		"two outposts":          {"[outpost]\nid = 'outpost_1'\nname = 'web'", []string{"p:3: outpost.name: names an outpost beside outpost.id"}},
		"two tokens":            {"[outpost]\ntoken_file = 'x'\ntoken_env = 'MY'", []string{"p:1: outpost: names the token more than once"}},
		"api with a path":       {"[outpost]\napi_url = 'https://api.devin.ai/v1'", []string{"p:2: outpost.api_url: must be scheme and host only"}},
		"api is no address":     {"[outpost]\napi_url = 'api.devin.ai'", []string{"p:2: outpost.api_url: must be an address"}},
		"token flag":            {"[worker]\nargs = ['--token=x']", []string{"p:2: worker.args[0]: --token is not allowed here"}},
		"acceptor flag":         {"[worker]\ncommand = ['devin', '--acceptor-id', 'x']", []string{"p:2: worker.command[1]: --acceptor-id is not allowed here"}},
		"no command":            {"[worker]\ncommand = []", []string{"p:2: worker.command: is empty"}},
		"unknown placeholder":   {"[worker]\nargs = ['--x={workr}']", []string{`p:2: worker.args[0]: has an unknown placeholder; known are {worker}, {slot}, {pool}, {outpost}, {acceptor}; did you mean "worker"?`}},
		"variable's name":       {"[worker.env]\n'A-B' = 'x'", []string{"p:2: worker.env.A-B: is no name of a variable"}},
		"the pool's variable":   {"[worker.env]\nHOME = '/x'", []string{"p:2: worker.env.HOME: is set by the pool itself"}},
		"variable twice":        {"[worker]\nenv = {A = 'x'}\nsecret_env = {A = {env = 'A'}}", []string{"p:2: worker.env.A: is also in worker.secret_env"}},
		"secret without source": {"[worker.secret_env]\nA = {}", []string{"p:2: worker.secret_env.A: must name one source"}},
		"secret in two places":  {"[worker.secret_env]\nA = {env = 'A', file = 'a'}", []string{"p:2: worker.secret_env.A: must name one source"}},
		"secret as text":        {"[worker.secret_env]\nA = 'short'", []string{"p:2: worker.secret_env.A: must be a table such as {env", "p:2: worker.secret_env.A: must name one source"}},
		"two git tokens":        {"[worker]\ngit_token_env = 'A'\ngit_token_file = 'a'", []string{"p:3: worker.git_token_file: is written beside git_token_env"}},
		"token in the clear":    {"[worker]\ngit_token_env = 'A'\nrepos = [{url = 'http://h/a'}, {url = 'http://127.0.0.1:1/b'}]", []string{"p:3: worker.repos[0].url: would send the git token without encryption"}},
		"repo without url":      {"[[worker.repos]]\nurl = 'https://h/a'\n[[worker.repos]]\nbranch = 'x'", []string{"p:3: worker.repos[1].url: is missing; write text"}},
		"repo with empty url":   {"[[worker.repos]]\nurl = ''", []string{"p:2: worker.repos[0].url: is missing"}},
		"repo key":              {"[[worker.repos]]\nurl = 'https://h/a'\nbrnch = 'x'", []string{`p:3: worker.repos[0].brnch: is not a key of an entry of worker.repos; did you mean "branch"?`}},
		"same repo name":        {"[worker]\nrepos = [{url = 'https://h/a/App'},\n {url = 'git@h:b/app.git'}]", []string{"p:3: worker.repos[1].url: would be cloned into the same folder as worker.repos[0]"}},
		"repo as one table":     {"[worker.repos]\nurl = 'x'", []string{"p:1: worker.repos: must be a list of tables; it is a table"}},
		"bind of everything":    {"[provider.local]\nbinds = ['/opt', '/']", []string{"p:2: provider.local.binds[1]: would show all"}},
		"proxy":                 {"[network]\nproxy = 'proxy'", []string{"p:2: network.proxy: must be an address"}},
		"no_proxy":              {"[network]\nno_proxy = ['a, b']", []string{"p:2: network.no_proxy[0]: must be one host"}},
		"not TOML":              {"[pool]\nname = web", []string{"p:2: is not TOML here"}},
		"key twice":             {"[pool]\nworkers = 1\nworkers = 2", []string{"p:3: is not TOML here"}},
		"nested too deeply":     {"x = " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), []string{"p: holds tables or lists nested too deeply"}},
		"endless key":           {strings.Repeat("x", 5000) + " = 1", []string{"p:1: " + strings.Repeat("x", 100) + "…: is not a key of this file; known are pool, outpost,"}},
		"line break in a key":   {"\"a\\nb\" = 1", []string{`p:1: "a\nb": is not a key of this file`}},
		"all at once": {"[pool]\nworkers = 'x'\nnmae = 'x'\n[logs]\nlevel = 'loud'\n[worker]\nstop_grace = '-1s'", []string{
			"p:2: pool.workers:", "p:3: pool.nmae:", "p:5: logs.level:", "p:7: worker.stop_grace:"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := Parse("p", []byte(c.source))
			if config != nil {
				t.Error("a wrong file gives a configuration all the same")
			}
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("the error is %v, not Problems", err)
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(c.want) {
				t.Fatalf("%d lines, want %d:\n%s", len(got), len(c.want), err)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(got[i], want) {
					t.Errorf("line %d is\n%s\nwant\n%s", i+1, got[i], want)
				}
			}
		})
	}
}

func TestRightValuesAreAccepted(t *testing.T) {
	for _, source := range []string{
		"pool.workers = 0",
		"[sandbox]\ncpu = 2\nmemory = 4294967296\ndisk = '10Gi'",
		"[sandbox]\ncpu = 0.5",
		"[worker]\ncommand = ['my-worker']",
		"[worker]\nargs = ['--json={\"a\":1}', '--slot={slot}']",
		"[worker]\nstop_grace = '0s'",
		"[provider.docker]\n"[:0],
		"[outpost]\napi_url = 'http://127.0.0.1:8080/opbeta/'",
		"[[worker.repos]]\nurl = 'file:///srv/git/app.git'\nbranch = 'v1.2/x'\ndepth = 1",
		"[[worker.repos]]\nurl = 'ssh://git@host:22/team/app'",
		"\ufeff[pool]\r\nname = 'web'\r\n",
	} {
		if _, err := Parse("p", []byte(source)); err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
}

func TestRepoURLs(t *testing.T) {
	for url, name := range map[string]string{
		"https://github.com/team/app":      "app",
		"https://github.com/team/app.git/": "app",
		"git@github.com:team/app.git":      "app",
		"git@host:app":                     "app",
		"ssh://git@host/~me/app.v2":        "app.v2",
		"file:///srv/app":                  "app",
	} {
		if got := (Repo{URL: url}).Name(); got != name || repoURLProblem(url) != "" {
			t.Errorf("%s: name %q, want %q; problem %q", url, got, name, repoURLProblem(url))
		}
	}
	for _, url := range []string{
		"ext::sh -c touch% /tmp/x", "-upload-pack=x", "https://", "https://host", "https://host/", "/srv/app", "app",
		"https://host/..", "https://host/.git", "https://user@host/app", "https://user:word@host/app", "https://host/a b",
		"https://host/-x", "https://host/app?x=1", "ftp://host/app", "fd::17", "https:///app", "git@host:..",
	} {
		source := "[[worker.repos]]\nurl = " + tomlText(url)
		if _, err := Parse("p", []byte(source)); err == nil {
			t.Errorf("%s is accepted", url)
		}
	}
	for _, branch := range []string{"-x", "a..b", "a b", "a~1", "a:b"} {
		source := "[[worker.repos]]\nurl = 'https://h/a'\nbranch = " + tomlText(branch)
		if _, err := Parse("p", []byte(source)); err == nil {
			t.Errorf("branch %q is accepted", branch)
		}
	}
}

func TestLoadCompletesPaths(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", "/home/ada")
	file := filepath.Join(dir, "pool.toml")
	source := "[pool]\nstate_dir = 'state'\n[outpost]\ntoken_file = '~/t'\n[network]\nca_file = '/etc/../ca.pem'\n" +
		"[provider.local]\nbinds = ['x', '/opt']\n[worker]\nprepare = 'stays'\nsecret_env = {A = {file = 'a'}, B = {env = 'B'}}"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		config.Pool.StateDir, config.Outpost.TokenFile, config.Network.CAFile, config.Provider.Local.Binds[0],
		config.Provider.Local.Binds[1], config.Worker.Prepare, config.Worker.SecretEnv["A"].File, config.Worker.SecretEnv["B"].File,
	}
	want := []string{dir + "/state", "/home/ada/t", "/ca.pem", dir + "/x", "/opt", "stays", dir + "/a", ""}
	if !slices.Equal(got, want) {
		t.Errorf("paths are %q, want %q", got, want)
	}
	if !config.Written("worker.secret_env") || config.Written("worker.command") {
		t.Error("Written tells a default from what the file holds wrongly")
	}
}

func TestLoadOfWhatIsNoConfiguration(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, make([]byte, fileLimit+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.toml"): "no such file or directory; pool init writes a first one",
		dir:                             "is no file",
		big:                             "is no file of at most 256 KiB",
	} {
		_, err := Load(path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want …%s", path, err, want)
		}
	}
}

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("examples/*.toml")
	if err != nil || len(files) < 2 {
		t.Fatalf("examples: %q, %v", files, err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Errorf("%v", err)
		}
	}
	team, err := Load("examples/team.toml")
	if err != nil {
		t.Fatal(err)
	}
	if len(team.Worker.Repos) != 2 || len(team.Worker.SecretEnv) != 2 || team.Sandbox.Memory != 4<<30 {
		t.Errorf("team.toml is read as %+v", team)
	}
}
