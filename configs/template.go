package configs

import (
	"fmt"
	"strings"
)

// TemplateInput is what pool init found. Everything may be empty.
type TemplateInput struct {
	Name    string // the pool's; empty: the default
	Workers int    // 0: the default

	CLI        string // the path of the devin command
	CLIVersion string // its one line, such as "devin 3000.6.7 (260a97c8)"

	Outpost  string        // the id that was chosen; empty: none yet
	Outposts []OutpostSeen // what the token sees
	Platform string        // this machine's, in the vendor's words: linux, macos
	APIURL   string        // when it is not the default

	TokenEnv  string // the variable that held the token, if that is known
	TokenFile string // or the file

	Bubblewrap bool // it is installed and works
	Docker     bool
}

// OutpostSeen is one outpost of the account.
type OutpostSeen struct{ ID, Name, Platform string }

// Template writes the first pool.toml: short, with a comment at everything a
// beginner decides, and free of problems.
func Template(in TemplateInput) []byte {
	w := &templateWriter{}
	w.line("# A pool of Devin Outposts workers. Start it with: pool up")
	w.line("# Every key and its default: pool config show. What is wrong with this file: pool config check.")
	w.pool(in)
	w.outpost(in)
	w.provider(in)
	w.worker(in)
	return []byte(w.b.String())
}

type templateWriter struct{ b strings.Builder }

func (w *templateWriter) line(format string, args ...any) {
	fmt.Fprintf(&w.b, format+"\n", args...)
}

func (w *templateWriter) pool(in TemplateInput) {
	standard := Default().Pool
	if !poolName.MatchString(in.Name) {
		in.Name = standard.Name
	}
	if in.Workers <= 0 {
		in.Workers = standard.Workers
	}
	w.line("\n[pool]")
	w.line("name = %s", tomlText(in.Name))
	w.line("workers = %d                # sessions served at the same time", in.Workers)
}

func (w *templateWriter) outpost(in TemplateInput) {
	w.line("\n[outpost]")
	if in.Outpost == "" {
		w.line("# Which queue to serve. Until it is written here, OUTPOST_ID in the environment names it.")
	}
	for _, seen := range in.Outposts {
		label := commentText(seen.Name)
		if seen.Platform != "" {
			label += ", for " + commentText(seen.Platform)
			if in.Platform != "" && in.Platform != seen.Platform {
				label += "; this machine is " + commentText(in.Platform) + " and cannot serve it"
			}
		}
		prefix := "# "
		if seen.ID == in.Outpost {
			prefix = ""
		}
		w.line("%sid = %s   # %s", prefix, tomlText(seen.ID), label)
	}
	if in.Outpost != "" && !in.sees(in.Outpost) {
		w.line("id = %s", tomlText(in.Outpost))
	}
	if in.Outpost == "" && len(in.Outposts) == 0 {
		w.line("# id = \"outpost_env-...\"")
	}
	if in.APIURL != "" && in.APIURL != DefaultAPIURL {
		w.line("api_url = %s", tomlText(in.APIURL))
	}
	w.line("# The token is named here, never written. Only you may be able to read a token file (chmod 600).")
	switch {
	case in.TokenFile != "":
		w.line("token_file = %s", tomlText(in.TokenFile))
	case in.TokenEnv != "" && in.TokenEnv != DefaultTokenEnv && in.TokenEnv != OtherTokenEnv:
		w.line("token_env = %s", tomlText(in.TokenEnv))
	default:
		w.line("# token_env = %s   # the default; %s is looked at next", tomlText(DefaultTokenEnv), OtherTokenEnv)
		w.line("# token_file = \"~/.config/pool/token\"")
	}
}

func (in TemplateInput) sees(id string) bool {
	for _, seen := range in.Outposts {
		if seen.ID == id {
			return true
		}
	}
	return false
}

func (w *templateWriter) provider(in TemplateInput) {
	w.line("\n[provider]")
	w.line("kind = \"local\"             # sandboxes on this machine")
	if in.Docker {
		w.line("# Docker is installed here, but this version of pool (%s) does not use it yet.", commentText(version()))
	}
	w.line("\n[provider.local]")
	if in.Bubblewrap {
		w.line("# bubblewrap works here: each worker sees its own workspace and a read-only system.")
		w.line("isolation = \"bwrap\"")
	} else {
		w.line("# bubblewrap was not found: with \"auto\" the workers have no walls until it is installed, and")
		w.line("# sessions can read each other's work and whatever you can read. Write \"bwrap\" to insist on walls.")
		w.line("isolation = \"auto\"")
	}
	w.line("\n# Limits of one worker; what is not written is unlimited.")
	w.line("# [sandbox]")
	w.line("# cpu = 2")
	w.line("# memory = \"4Gi\"")
}

func (w *templateWriter) worker(in TemplateInput) {
	w.line("\n[worker]")
	switch {
	case in.CLI == "":
		w.line("# The devin command was not found. Install it from https://cli.devin.ai/install.sh, on PATH or in ~/.local/bin.")
	case in.CLIVersion == "":
		w.line("# The devin command is %s.", commentText(in.CLI))
	default:
		w.line("# The devin command is %s (%s).", commentText(in.CLI), commentText(in.CLIVersion))
	}
	w.line("# Runs in a new workspace before its first worker:")
	w.line("# prepare = \"\"\"")
	w.line("# npm ci --prefix repos/app")
	w.line("# \"\"\"")
	w.line("# Repositories that wait in repos/ when a session begins, and the git token for private ones:")
	w.line("# repos = [{url = \"https://github.com/your-org/app\"}]")
	w.line("# git_token_env = \"GITHUB_TOKEN\"")
	w.line("\n# Variables of the worker; nothing else of your environment reaches it. Sessions can read them.")
	w.line("# [worker.env]")
	w.line("# LANG = \"C.UTF-8\"")
	w.line("# [worker.secret_env]")
	w.line("# NPM_TOKEN = {file = \"~/.config/pool/npm-token\"}")
}

// tomlText writes a basic string. What was found may come from elsewhere, so
// nothing in it may end the string or the line.
func tomlText(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// commentText is for texts from elsewhere inside a comment.
func commentText(text string) string { return hideTokens(oneLine(text)) }
