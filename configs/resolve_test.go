package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func parsed(t *testing.T, source string) *Config {
	t.Helper()
	config, err := Parse("pool.toml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestWhereOutpostAndTokenComeFrom(t *testing.T) {
	both := map[string]string{"OUTPOST_ID": "outpost_env-e", "DEVIN_OUTPOSTS_TOKEN": "cog_eeeeeeee"}
	fileVars := map[string]string{"OUTPOST_ID": "outpost_env-f", "DEVIN_OUTPOSTS_TOKEN": "cog_ffffffff"}
	for name, c := range map[string]struct {
		in                     Inputs
		config                 string
		outpost, outpostSource string
		api                    string
		token                  Secret
		notes                  []string
	}{
		"two variables": {in: Inputs{Env: both},
			outpost: "outpost_env-e", outpostSource: "OUTPOST_ID in the environment", token: Secret{Env: "DEVIN_OUTPOSTS_TOKEN"}},
		"the other variables": {in: Inputs{Env: map[string]string{"DEVIN_OUTPOST_ID": "web team", "DEVIN_API_TOKEN": "x", "DEVIN_OUTPOSTS_TOKEN": " "}},
			outpost: "web team", outpostSource: "DEVIN_OUTPOST_ID in the environment", token: Secret{Env: "DEVIN_API_TOKEN"}},
		"first before other": {in: Inputs{Env: map[string]string{"DEVIN_OUTPOST_ID": "b", "OUTPOST_ID": "a", "DEVIN_API_TOKEN": "x", "DEVIN_OUTPOSTS_TOKEN": "y"}},
			outpost: "a", outpostSource: "OUTPOST_ID in the environment", token: Secret{Env: "DEVIN_OUTPOSTS_TOKEN"}},
		"env file": {in: Inputs{EnvFile: ".env", EnvFileVars: fileVars},
			outpost: "outpost_env-f", outpostSource: "OUTPOST_ID in .env", token: Secret{Env: "DEVIN_OUTPOSTS_TOKEN", EnvFile: ".env"}},
		"env file before environment": {in: Inputs{Env: both, EnvFile: ".env", EnvFileVars: fileVars},
			outpost: "outpost_env-f", outpostSource: "OUTPOST_ID in .env", token: Secret{Env: "DEVIN_OUTPOSTS_TOKEN", EnvFile: ".env"},
			notes: []string{"OUTPOST_ID is also set in the environment; the one in .env counts", "DEVIN_OUTPOSTS_TOKEN is also set in the environment; the one in .env counts"}},
		"configuration before environment": {in: Inputs{Env: both}, config: "[outpost]\nname = 'web'\ntoken_file = '/t'",
			outpost: "web", outpostSource: "[outpost] of the configuration", token: Secret{File: "/t"},
			notes: []string{"OUTPOST_ID in the environment names another outpost; the configuration's counts"}},
		"flags before configuration": {
			in:      Inputs{Env: both, Flags: Flags{Outpost: "pool_1", TokenFile: "/f", APIURL: "https://flag.example"}},
			config:  "[outpost]\nname = 'web'\ntoken_command = 'x'\napi_url = 'https://config.example'",
			outpost: "pool_1", outpostSource: "--outpost", token: Secret{File: "/f"}, api: "https://flag.example"},
		"flag for a variable": {in: Inputs{Env: map[string]string{"MINE": "x", "OUTPOST_ID": "a"}, Flags: Flags{TokenEnv: "MINE"}},
			outpost: "a", outpostSource: "OUTPOST_ID in the environment", token: Secret{Env: "MINE"}},
		"command": {in: Inputs{Env: both}, config: "[outpost]\nid = 'outpost_1'\ntoken_command = 'pass show x'",
			outpost: "outpost_1", outpostSource: "[outpost] of the configuration", token: Secret{Command: "pass show x"},
			notes: []string{"OUTPOST_ID in the environment names another outpost; the configuration's counts"}},
		"chosen variable": {in: Inputs{Env: map[string]string{"MINE": "x"}}, config: "[outpost]\nid = 'o'\ntoken_env = 'MINE'",
			outpost: "o", outpostSource: "[outpost] of the configuration", token: Secret{Env: "MINE"}},
		"address from the environment": {in: Inputs{Env: map[string]string{"OUTPOST_ID": "a", "DEVIN_API_TOKEN": "x", "DEVIN_API_URL": "https://eu.example/opbeta/"}},
			outpost: "a", outpostSource: "OUTPOST_ID in the environment", token: Secret{Env: "DEVIN_API_TOKEN"}, api: "https://eu.example",
			notes: []string{"/opbeta is left out of the API's address from DEVIN_API_URL in the environment: the CLI wants scheme and host only"}},
		"default address written out": {in: Inputs{Env: map[string]string{"OUTPOST_ID": "a", "DEVIN_API_TOKEN": "x", "DEVIN_API_URL": "https://eu.example"}},
			config: "[outpost]\napi_url = 'https://api.devin.ai'", outpost: "a", outpostSource: "OUTPOST_ID in the environment", token: Secret{Env: "DEVIN_API_TOKEN"}},
		"address without encryption": {in: Inputs{Env: map[string]string{"OUTPOST_ID": "a", "DEVIN_API_TOKEN": "x", "DEVIN_API_URL": "http://proxy:8080/opbeta/outposts"}},
			outpost: "a", outpostSource: "OUTPOST_ID in the environment", token: Secret{Env: "DEVIN_API_TOKEN"}, api: "http://proxy:8080",
			notes: []string{"/opbeta/outposts is left out of the API's address from DEVIN_API_URL in the environment: the CLI wants scheme and host only",
				"the token goes to http://proxy:8080 without encryption"}},
		"address on this machine": {in: Inputs{Env: both, Flags: Flags{APIURL: "http://127.0.0.1:4000"}},
			outpost: "outpost_env-e", outpostSource: "OUTPOST_ID in the environment", token: Secret{Env: "DEVIN_OUTPOSTS_TOKEN"}, api: "http://127.0.0.1:4000"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.config != "" {
				c.in.Config = parsed(t, c.config)
			}
			got, err := Resolve(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if c.api == "" {
				c.api = DefaultAPIURL
			}
			if got.Outpost() != c.outpost || got.OutpostSource != c.outpostSource || got.APIURL != c.api || got.Token != c.token || !slices.Equal(got.Notes, c.notes) {
				t.Errorf("got %+v\nwant %s from %s, %s, %+v, notes %q", got, c.outpost, c.outpostSource, c.api, c.token, c.notes)
			}
		})
	}
}

func TestIdsAreToldFromNames(t *testing.T) {
	for text, isID := range map[string]bool{"outpost_env-1": true, "pool_1": true, "outposts": false, "web": false, "my outpost_1": false} {
		got, err := Resolve(Inputs{Flags: Flags{Outpost: text, TokenFile: "/t"}})
		if err != nil || (got.OutpostID == text) != isID || (got.OutpostName == text) == isID {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestWhatIsMissingIsSaidInWords(t *testing.T) {
	_, err := Resolve(Inputs{})
	if !errors.Is(err, ErrNoOutpost) || !errors.Is(err, ErrNoToken) {
		t.Fatalf("both are missing, and the error is %v", err)
	}
	for _, word := range []string{"--outpost", "OUTPOST_ID", "DEVIN_OUTPOSTS_TOKEN is not set", "--env-file", "token_file"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %s", err, word)
		}
	}
	for name, c := range map[string]struct {
		in     Inputs
		config string
		want   string
	}{
		"a chosen variable is not replaced by another": {
			in: Inputs{Env: map[string]string{"DEVIN_OUTPOSTS_TOKEN": "x"}}, config: "[outpost]\nid='o'\ntoken_env='MINE'", want: "MINE is not set"},
		"a token as the outpost": {
			in: Inputs{Env: map[string]string{"OUTPOST_ID": "cog_abcdefgh12345678", "DEVIN_API_TOKEN": "x"}}, want: "what OUTPOST_ID in the environment names as the outpost looks like a token"},
		"a line break in the outpost": {
			in: Inputs{Flags: Flags{Outpost: "a\nb", TokenFile: "/t"}}, want: "the outpost from --outpost has a line break"},
		"a wrong address": {
			in: Inputs{Flags: Flags{Outpost: "a", TokenFile: "/t", APIURL: "https://me:hunter2@api.devin.ai"}}, want: "the API's address from --api-url must be scheme and host only"},
	} {
		if c.config != "" {
			c.in.Config = parsed(t, c.config)
		}
		_, err := Resolve(c.in)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s", name, err, c.want)
		} else if strings.Contains(err.Error(), "abcdefgh") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is shown: %v", name, err)
		}
	}
}

func TestEnviron(t *testing.T) {
	got := Environ([]string{"A=1", "B=x=y", "C="})
	if got["A"] != "1" || got["B"] != "x=y" || len(got) != 3 {
		t.Errorf("got %q", got)
	}
}
