// Package configs is the configuration of a pool: its types, defaults,
// loading and checking, and where outpost and token come from. It knows no
// other package of this program; only the command line knows it.
//
// The struct tags are the one place that describes a key. They carry
//
//	toml    the key's name
//	doc     what it means, for the reference and the JSON Schema
//	allowed the words a text may be, separated by |
//	later   words that a later version allows
//	min,max bounds of a number, a duration or a size, both included
//	pattern a regular expression, with its meaning in patternDoc
//	path    a path: relative to the configuration file, ~ is the home folder
//	needed  the key must be written wherever its table is
//	hash    "-" leaves the key out of Hash
//	names   "env": the keys of this table are names of variables
//
// so that a new key is one struct field and nothing else.
package configs

import (
	"path"
	"strings"
)

// Config is a whole configuration, complete with defaults.
type Config struct {
	Pool     Pool     `toml:"pool" doc:"The pool as a whole."`
	Outpost  Outpost  `toml:"outpost" doc:"Which queue of Devin Cloud the workers serve and where the token is. Write id or name, or set OUTPOST_ID in the environment. The token itself is never written here."`
	Provider Provider `toml:"provider" doc:"What makes the sandboxes."`
	Sandbox  Sandbox  `toml:"sandbox" doc:"The limits of one sandbox. On this machine what is not written is unlimited, and a limit that cannot be set is refused at the start."`
	Worker   Worker   `toml:"worker" doc:"The worker in each sandbox: its command, its environment, what is prepared before it starts and how it ends. The environment holds what is named here and nothing inherited."`
	Restart  Restart  `toml:"restart" doc:"How a worker that ended is started again. The first failure restarts at once; each further one waits initial × 2^(failures lately − 1), at most max, give or take the jitter."`
	Logs     Logs     `toml:"logs" doc:"The log of each worker and of the supervisor."`
	Network  Network  `toml:"network" doc:"How workers, git and the pool itself reach the outside."`

	written map[string]bool
}

// Written reports whether the file itself held the key, such as
// "outpost.api_url", rather than leaving it to its default.
func (c *Config) Written(key string) bool { return c.written[key] }

// Pool is the table [pool].
type Pool struct {
	Name           string `toml:"name" pattern:"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$" patternDoc:"1 to 40 of a–z, 0–9 and -, not at either end" doc:"The pool's name. Its workers are called name-0, name-1 and so on."`
	Workers        int    `toml:"workers" min:"0" max:"4096" doc:"How many workers there should be, as long as pool scale says nothing else."`
	StateDir       string `toml:"state_dir,omitempty" path:"yes" doc:"Where records, logs and sandboxes are kept. Left out: pool/NAME in $XDG_STATE_HOME, else in ~/.local/state."`
	ParallelStarts int    `toml:"parallel_starts" min:"1" max:"256" doc:"How many workers may be on their way up at the same time."`
	MaxUnavailable int    `toml:"max_unavailable" min:"1" max:"4096" doc:"How many workers may be missing at the same time because they are being replaced."`
}

// Outpost is the table [outpost]. The token is named, never written.
type Outpost struct {
	ID           string   `toml:"id,omitempty" pattern:"^[A-Za-z0-9_.-]{1,128}$" patternDoc:"letters, digits, _, . and -, such as outpost_env-0123…" doc:"The outpost's id. Better than its name: an outpost that is renamed breaks workers that use the name."`
	Name         string   `toml:"name,omitempty" doc:"The outpost's name, instead of its id."`
	APIURL       string   `toml:"api_url" doc:"Where Devin Cloud answers: scheme and host, without a path. Without this key DEVIN_API_URL in the environment counts."`
	TokenEnv     string   `toml:"token_env" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" patternDoc:"the name of a variable, such as MY_TOKEN" doc:"The variable of pool's own environment that holds the token. With the default, DEVIN_API_TOKEN is looked at next."`
	TokenFile    string   `toml:"token_file,omitempty" path:"yes" doc:"The file that holds the token, instead of token_env. Only you may be able to read it (chmod 600)."`
	TokenCommand string   `toml:"token_command,omitempty" doc:"A shell command that prints the token, instead of token_env. It runs with PATH and HOME only, for at most 30 s."`
	PollInterval Duration `toml:"poll_interval" min:"1s" max:"5m" doc:"How often Devin Cloud is asked which worker serves which session. One question serves the whole pool."`
}

// Provider is the table [provider], with one table inside it per kind.
type Provider struct {
	Kind  string `toml:"kind" allowed:"local" later:"docker|kubernetes|coreweave|daytona|e2b|tensorlake|cloudflare" doc:"Who makes the sandboxes. local is this machine."`
	Local Local  `toml:"local" doc:"Sandboxes on this machine: a folder, a process tree and, with bubblewrap, walls around both."`
}

// Local is the table [provider.local].
type Local struct {
	Isolation string   `toml:"isolation" allowed:"auto|none|bwrap" doc:"bwrap puts walls around each worker with bubblewrap and refuses to start without it. none builds no walls: sessions then share this machine and can read each other's work. auto takes bubblewrap where it works, and says so where it does not."`
	Binds     []string `toml:"binds,omitempty" path:"yes" doc:"Further files and folders of this machine that a worker can read, not write, behind its walls. Each is seen under its own path."`
	Path      []string `toml:"path,omitempty" path:"yes" doc:"Folders that come first in the worker's PATH. With walls they are readable inside."`
}

// Sandbox is the table [sandbox]. Zero means that no limit was written.
type Sandbox struct {
	CPU    float64 `toml:"cpu,omitzero" min:"0.01" max:"4096" doc:"Processor cores one sandbox may use; halves are fine."`
	Memory Bytes   `toml:"memory,omitzero" min:"16Mi" max:"64Ti" doc:"Memory one sandbox may use."`
	Disk   Bytes   `toml:"disk,omitzero" min:"1Mi" max:"4096Ti" doc:"Disk space one sandbox may use."`
}

// Worker is the table [worker].
type Worker struct {
	Command []string `toml:"command" doc:"The worker's command line. {worker}, {slot}, {pool}, {outpost} and {acceptor} are filled in."`
	Args    []string `toml:"args,omitempty" doc:"Put behind the command, filled in alike."`

	Env       map[string]string `toml:"env,omitempty" names:"env" doc:"Variables of the worker's environment. What is secret belongs in secret_env."`
	SecretEnv map[string]Secret `toml:"secret_env,omitempty" names:"env" doc:"Secret variables of the worker's environment. Each names where its value comes from, as in NPM_TOKEN = {file = \"npm-token\"}. Sessions can read them."`

	ChromePath string `toml:"chrome_path,omitempty" doc:"Where Chrome or Chromium is in the sandbox, if not in a usual place (DEVIN_CHROME_PATH)."`
	Display    string `toml:"display,omitempty" doc:"The X display of the worker, such as \":1\" (DISPLAY)."`

	Prepare        string   `toml:"prepare,omitempty" doc:"A shell script that runs in the workspace before a sandbox's first worker starts. What the worker needs outside its workspace is installed here or in the image."`
	PrepareTimeout Duration `toml:"prepare_timeout" min:"1s" max:"24h" hash:"-" doc:"How long prepare and cloning may take together."`

	Repos        []Repo `toml:"repos,omitempty" doc:"Repositories to clone into repos/ before the first worker starts. One that is there already is left alone."`
	GitUsername  string `toml:"git_username" doc:"The user name that goes with the git token."`
	GitTokenEnv  string `toml:"git_token_env,omitempty" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" patternDoc:"the name of a variable, such as GITHUB_TOKEN" doc:"The variable of pool's own environment that holds the git token. It reaches the one git process that clones, and no file."`
	GitTokenFile string `toml:"git_token_file,omitempty" path:"yes" doc:"The file that holds the git token, instead of git_token_env."`

	StartWindow Duration `toml:"start_window" min:"0s" max:"10m" hash:"-" doc:"How long a worker must live before its start counts as a success."`
	StopGrace   Duration `toml:"stop_grace" min:"0s" max:"1h" hash:"-" doc:"How long a worker has between TERM and KILL."`
	DrainLimit  Duration `toml:"drain_limit" min:"0s" max:"720h" hash:"-" doc:"How long a worker that should stop may go on serving its session. After that its session is cut off."`
	DeafAfter   Duration `toml:"deaf_after" min:"1s" max:"24h" hash:"-" doc:"How long a session may wait while a worker is idle before that worker counts as deaf and is restarted, once per session."`
}

// GitToken returns where the git token comes from; ok is false when the
// configuration names none.
func (w Worker) GitToken() (s Secret, ok bool) {
	s = Secret{Env: w.GitTokenEnv, File: w.GitTokenFile}
	return s, s != Secret{}
}

// Repo is one entry of worker.repos.
type Repo struct {
	URL    string `toml:"url" needed:"yes" doc:"Where the repository is: https, ssh, git or file, or git@host:path. Without a password."`
	Branch string `toml:"branch,omitempty" doc:"The branch or tag to check out. Left out: the repository's default."`
	Depth  int    `toml:"depth,omitzero" min:"0" max:"1000000" doc:"How many commits of history to fetch; 0 is all of it."`
}

// Name is the folder below repos/: the last part of the URL without .git.
// Newer CLIs look for your-org/app in repos/app (facts outposts.md 1.5).
func (r Repo) Name() string {
	location := strings.TrimRight(r.URL, "/")
	if scheme, rest, found := strings.Cut(location, "://"); found && scheme != "" {
		host, below, _ := strings.Cut(rest, "/")
		if below == "" && host != "" {
			return ""
		}
		location = below
	} else if at := strings.LastIndex(location, ":"); at >= 0 {
		location = location[at+1:]
	}
	name := strings.TrimSuffix(path.Base("/"+location), ".git")
	if name == "/" {
		return ""
	}
	return name
}

// Restart is the table [restart].
type Restart struct {
	Initial        Duration `toml:"initial" min:"10ms" max:"24h" doc:"The wait after the second failure."`
	Max            Duration `toml:"max" min:"10ms" max:"24h" doc:"The longest wait."`
	Jitter         float64  `toml:"jitter" min:"0" max:"1" doc:"How far a wait may differ from that, as a part of it: 0.25 is ± 25 %."`
	ResetAfter     Duration `toml:"reset_after" min:"1s" max:"720h" doc:"After so long without a failure the earlier ones are forgotten."`
	CrashLoopAfter int      `toml:"crash_loop_after" min:"1" max:"1000" doc:"So many remembered failures mark a worker as crash-looping. It is still retried, at the longest wait."`
	ReplaceAfter   int      `toml:"replace_after" min:"1" max:"1000" doc:"So many failures in a row in one sandbox replace the sandbox."`
}

// Logs is the table [logs].
type Logs struct {
	MaxSize   Bytes  `toml:"max_size" min:"64KB" max:"1Ti" doc:"A log file that grows beyond this is rotated."`
	MaxFiles  int    `toml:"max_files" min:"1" max:"1000" doc:"How many files of each log are kept, the current one included."`
	LineLimit Bytes  `toml:"line_limit" min:"256" max:"16MB" doc:"A longer line is cut into pieces, with a marker."`
	Format    string `toml:"format" allowed:"text|json" doc:"The form of the supervisor's own log."`
	Level     string `toml:"level" allowed:"debug|info|warn|error" doc:"From which weight on the supervisor writes to its own log."`
}

// Network is the table [network].
type Network struct {
	Proxy   string   `toml:"proxy,omitempty" doc:"The HTTP proxy, as in \"http://proxy:3128\". Without a password; a proxy that wants one goes into worker.secret_env as HTTPS_PROXY."`
	NoProxy []string `toml:"no_proxy,omitempty" doc:"Hosts that are reached without the proxy."`
	CAFile  string   `toml:"ca_file,omitempty" path:"yes" doc:"A file of further certificate authorities in PEM form to trust."`
}
