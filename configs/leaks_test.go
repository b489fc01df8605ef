package configs

import (
	"strings"
	"testing"
)

// secretsInFiles are files with a secret somewhere. Each is refused, and no
// message shows the part that is given.
var secretsInFiles = []struct{ name, source, secret string }{
	{"a token as the outpost", "[outpost]\nid = 'cog_abcdefgh12345678'", "cog_abcdefgh12345678"},
	{"a token under an unknown key", "[outpost]\ntoken = 'cog_abcdefgh12345678'", "abcdefgh1234"},
	{"a token in the environment", "[worker.env]\nX = 'ghp_0123456789abcdefghij'", "0123456789abc"},
	{"a fine-grained token", "[worker.env]\nX = 'github_pat_11ABCDEFG0123456789_abc'", "11ABCDEFG"},
	{"a GitLab token", "[worker.env]\nX = 'glpat-abcdefghij0123456789'", "abcdefghij"},
	{"an API key in the arguments", "[worker]\nargs = ['--key', 'sk-proj-abcdefghijklmnop1234']", "abcdefghij"},
	{"a token in an argument", "[worker]\nargs = ['--key=cog_abcdefgh12345678']", "abcdefgh"},
	{"a secret behind a flag", "[worker]\nargs = ['--api-key', 'Zm9vYmFyMTIzNDU2Nzg5']", "Zm9vYmFy"},
	{"a secret under a telling name", "[worker.env]\nMY_API_KEY = 'Zm9vYmFyMTIzNDU2Nzg5'", "Zm9vYmFy"},
	{"a password", "[worker.env]\nDB_PASSWORD = 'hunter2!'", "hunter2!"},
	{"a password in a URL", "[worker.env]\nDB = 'postgres://me:hunter22@db/x'", "hunter22"},
	{"a password of the proxy", "[network]\nproxy = 'http://me:hunter22@proxy:3128'", "hunter22"},
	{"a token in a repository", "[[worker.repos]]\nurl = 'https://x:ghp_0123456789abcdefghij@github.com/a/b'", "0123456789abc"},
	{"a secret in the script", "[worker]\nprepare = '''\necho hi\nexport NPM_TOKEN=Zm9vYmFyMTIzNDU2Nzg5\n'''", "Zm9vYmFy"},
	{"a token in a comment", "# old: cog_abcdefgh12345678\n[pool]", "abcdefgh"},
	{"a token as a key", "[worker.env]\ncog_abcdefgh12345678 = 'x'", "abcdefgh"},
	{"a secret as a secret_env text", "[worker.secret_env]\nNPM_TOKEN = 'npm_abcdefghij0123456789'", "abcdefghij"},
	{"an escaped token", `[worker.env]` + "\n" + `X = "cog\u005fabcdefgh12345678"`, "abcdefgh"},
	{"a private key", "[worker.env]\nX = '''\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabcdefgh\n'''", "MIIEabc"},
	{"a token without quotes", "[outpost]\nid = cog_abcdefgh12345678", "abcdefgh"},
	{"a token in a broken file", "[outpost\nid = 'cog_abcdefgh12345678'", "abcdefgh"},
	{"a token as a number", "[pool]\nworkers = 'cog_abcdefgh12345678'", "abcdefgh"},
	{"a token as a duration", "[worker]\nstop_grace = 'cog_abcdefgh12345678'", "abcdefgh"},
	{"a token as the pool's name", "[pool]\nname = 'cog_abcdefgh12345678'", "abcdefgh"},
	{"a token as a bad value", "[pool]\nworkers = 1cog_abcdefgh12345678", "abcdefgh"},
	{"a signed token", "[worker.env]\nX = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc'", "hbGciOiJ"},
	{"a number as a password", "[worker.env]\nDB_PASSWORD = 20264711_", "20264711"},
	{"a number too large", "[worker.env]\nDB_PASSWORD = 20264711202647112026", "20264711"},
	{"a date as a password", "[worker.env]\nDB_PASSWORD = 2026-47-11", "2026-47"},
	{"a password in a broken file", "[worker.env]\nDB_PASSWORD = hunter2hunter2", "hunter2"},
}

func TestSecretsAreRefusedAndNotShown(t *testing.T) {
	for _, c := range secretsInFiles {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("pool.toml", []byte(c.source))
			if err == nil {
				t.Fatal("the file is accepted")
			}
			if strings.Contains(err.Error(), c.secret) {
				t.Errorf("the secret is shown: %v", err)
			}
			if !strings.HasPrefix(err.Error(), "pool.toml:") {
				t.Errorf("no place is named: %v", err)
			}
		})
	}
}

func TestSecretsAreReportedOnceAtTheirLine(t *testing.T) {
	source := "[pool]\n\n[worker]\nargs = [\n 'x',\n 'cog_abcdefgh12345678',\n]\nprepare = '''\n\nghp_0123456789abcdefghij\n'''\n# glpat-abcdefghij0123456789"
	_, err := Parse("p", []byte(source))
	if err == nil {
		t.Fatal("accepted")
	}
	var got []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		where, _, _ := strings.Cut(line, ";")
		got = append(got, where)
	}
	want := "p:6: worker.args[1]: looks like a Devin token|p:8: worker.prepare: looks like a GitHub token|p:12: looks like a GitLab token"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

func TestWhatOnlyResemblesASecretIsAccepted(t *testing.T) {
	for _, source := range []string{
		"# the token looks like cog_… or cog_xxx",
		"[outpost]\ntoken_env = 'MY_DEVIN_TOKEN'\n",
		"[outpost]\ntoken_file = '/run/secrets/devin-token-0123456789'",
		"[outpost]\ntoken_command = 'pass show devin/token'",
		"[worker.env]\nTOKENIZERS_PARALLELISM = 'false'\nSECRET_BACKEND = 'aws-secretsmanager-v2'\nPASSWORD_STORE_DIR = '/x/y'\nMAX_TOKENS = '128000'",
		"[worker.env]\nNPM_TOKEN_PATH = 'a1b2c3d4e5f6g7h8'",
		"[worker.env]\nGIT_TERMINAL_PROMPT_PASSWORD = 'never'",
		"[worker.env]\nBRANCH = 'task-abcdefghijklmnopqrstuvwxyz'\nDESK = 'desk-abcdefghijklmnopqrst'",
		"[worker.secret_env]\nNPM_TOKEN = {command = 'vault read -field=token secret/npm'}",
		"[worker]\nprepare = 'export NPM_TOKEN=$(cat /run/secrets/npm)'",
		"[worker]\nprepare = 'TOKEN=\"$NPM_TOKEN\" npm ci'",
		"[outpost]\nid = 'outpost_env-0123456789abcdef0123456789abcdef'",
		"[[worker.repos]]\nurl = 'ssh://git@github.com/team/app'",
	} {
		if _, err := Parse("p", []byte(source)); err != nil {
			t.Errorf("%q: %v", source, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range secretsInFiles {
		f.Add(c.source, "")
	}
	f.Add(crowdedSource, "x = '")
	f.Add("[worker.env]\nX = '", "'")
	f.Add("[pool]\nworkers = \"", "\"")
	f.Add("[pool]\n\"", "\" = 1")
	f.Add("a = [[[[{b = [\"", "\"]}]]]]")
	f.Add("[a.\"b.c\".'", "']\nx = 1")
	f.Add("x = 1", "\ny = '''\n\"\"\"")
	f.Fuzz(func(t *testing.T, before, after string) {
		// A token in the middle of anything must never come out again.
		const secret = "q7Zr2mNw9xKd41Lv"
		source := before + "cog_" + secret + after
		config, err := Parse("pool.toml", []byte(source))
		if err == nil {
			if shown := string(Show(*config)); strings.Contains(shown, secret) {
				t.Fatalf("a token was accepted from %q", source)
			}
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if strings.Contains(line, secret) {
				t.Fatalf("the token is shown: %s", line)
			}
			if !strings.HasPrefix(line, "pool.toml") {
				t.Fatalf("a problem is more than one line: %q", err)
			}
		}
	})
}
