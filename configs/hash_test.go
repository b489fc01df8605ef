package configs

import (
	"regexp"
	"testing"
)

func TestHashIsStable(t *testing.T) {
	// Fixed here on purpose: another value would make every running worker of
	// every pool outdated at an upgrade.
	if got := Hash(Default()); got != "6ee22cbc67cefc3d" {
		t.Errorf("the default's hash is %s", got)
	}
	team, err := Parse("team", []byte(`
[worker]
env = {B = "2", A = "1"}
repos = [{url = "https://h/a", depth = 1}]
secret_env = {S = {file = "/s"}}
[sandbox]
memory = "4Gi"`))
	if err != nil {
		t.Fatal(err)
	}
	if got := Hash(*team); got != "124ae2e05a3643a5" {
		t.Errorf("the team's hash is %s", got)
	}
	if !regexp.MustCompile("^[0-9a-f]{16}$").MatchString(Hash(*team)) {
		t.Error("it is not 16 hexadecimal digits")
	}
}

func TestWhatMakesASandboxOutdated(t *testing.T) {
	before := Hash(Default())
	for name, c := range map[string]struct {
		change   func(*Config)
		outdated bool
	}{
		"isolation":     {func(c *Config) { c.Provider.Local.Isolation = "bwrap" }, true},
		"binds":         {func(c *Config) { c.Provider.Local.Binds = []string{"/opt"} }, true},
		"cpu":           {func(c *Config) { c.Sandbox.CPU = 2 }, true},
		"command":       {func(c *Config) { c.Worker.Command = []string{"x"} }, true},
		"env":           {func(c *Config) { c.Worker.Env = map[string]string{"A": "1"} }, true},
		"secret source": {func(c *Config) { c.Worker.SecretEnv = map[string]Secret{"A": {Env: "B"}} }, true},
		"repo":          {func(c *Config) { c.Worker.Repos = []Repo{{URL: "https://h/a"}} }, true},
		"prepare":       {func(c *Config) { c.Worker.Prepare = "x" }, true},
		"proxy":         {func(c *Config) { c.Network.Proxy = "http://p" }, true},
		"outpost":       {func(c *Config) { c.Outpost.ID = "outpost_2" }, true},
		"address":       {func(c *Config) { c.Outpost.APIURL = "https://x" }, true},

		"nothing":      {func(c *Config) {}, false},
		"empty lists":  {func(c *Config) { c.Worker.Args = []string{}; c.Worker.Env = map[string]string{} }, false},
		"workers":      {func(c *Config) { c.Pool.Workers = 7 }, false},
		"token source": {func(c *Config) { c.Outpost.TokenFile = "/t" }, false},
		"drain limit":  {func(c *Config) { c.Worker.DrainLimit = 1 }, false},
		"stop grace":   {func(c *Config) { c.Worker.StopGrace = 1 }, false},
		"restart":      {func(c *Config) { c.Restart.Max = 1 }, false},
		"logs":         {func(c *Config) { c.Logs.MaxFiles = 1 }, false},
	} {
		changed := Default()
		c.change(&changed)
		if got := Hash(changed) != before; got != c.outdated {
			t.Errorf("%s: outdated is %v, want %v", name, got, c.outdated)
		}
	}
}
