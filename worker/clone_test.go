package worker

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const gitToken = "ghp_verysecrettoken42"

// gitServer serves app.git and lib.git over real HTTP and asks for a password.
func gitServer(t *testing.T) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"app", "lib"} {
		git(t, root, "init", "-q", "-b", "main", name)
		work := filepath.Join(root, name)
		for _, text := range []string{"one", "two"} {
			write(t, filepath.Join(work, "file"), name+" "+text+"\n", 0o600)
			git(t, work, "add", "file")
			git(t, work, "commit", "-q", "-m", text)
		}
		git(t, work, "checkout", "-q", "-b", "side")
		write(t, filepath.Join(work, "file"), name+" side\n", 0o600)
		git(t, work, "commit", "-q", "-a", "-m", "side")
		git(t, work, "checkout", "-q", "main")
		git(t, root, "clone", "-q", "--bare", name, name+".git")
	}
	home, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(home)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
	var served atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user == "" || password != gitToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		served.Add(1)
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server, &served
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t",
		"GIT_COMMITTER_EMAIL=t@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestClone(t *testing.T) {
	server, served := gitServer(t)
	s, env := newSandbox(t)
	// A session of before left a configuration that would store the token.
	write(t, filepath.Join(s.dir, ".home", ".gitconfig"),
		"[credential]\n\thelper = store\n[credential \""+server.URL+"\"]\n\thelper = store\n", 0o600)
	// What a clone that broke off left behind.
	write(t, filepath.Join(s.dir, "repos", ".app.partial", ".git", "config"), "torn", 0o600)
	p := Preparation{Environment: env, GitToken: gitToken, Repos: []Repo{
		{URL: server.URL + "/app.git"},
		{URL: server.URL + "/lib.git", Branch: "side", Depth: 1},
	}}
	seen := watchArguments(t)
	var out bytes.Buffer
	if err := Prepare(t.Context(), s, p, &out); err != nil {
		t.Fatal(err)
	}
	if read(t, s.dir, "repos/app/file") != "app two\n" || read(t, s.dir, "repos/lib/file") != "lib side\n" {
		t.Error("wrong files")
	}
	if n := git(t, filepath.Join(s.dir, "repos/app"), "rev-list", "--count", "HEAD"); n != "2" {
		t.Errorf("app has %s commits", n)
	}
	if n := git(t, filepath.Join(s.dir, "repos/lib"), "rev-list", "--count", "HEAD"); n != "1" {
		t.Errorf("lib has %s commits", n)
	}
	if url := git(t, filepath.Join(s.dir, "repos/app"), "remote", "get-url", "origin"); url != server.URL+"/app.git" {
		t.Errorf("origin is %s", url)
	}

	// An existing clone is left alone, whatever became of it.
	write(t, filepath.Join(s.dir, "repos/app/file"), "work in progress\n", 0o600)
	before := served.Load()
	if err := Prepare(t.Context(), s, p, &out); err != nil {
		t.Fatal(err)
	}
	if read(t, s.dir, "repos/app/file") != "work in progress\n" || served.Load() != before {
		t.Error("an existing clone was touched")
	}
	noToken(t, s, seen(), out.String())
}

// noToken looks for the token in files, arguments, output and in the
// environment of everything but git clone.
func noToken(t *testing.T, s *execSandbox, arguments, output string) {
	t.Helper()
	if strings.Contains(arguments, gitToken) || strings.Contains(output, gitToken) {
		t.Error("the token was in an argument or in the output")
	}
	for _, c := range s.cmds {
		if strings.Contains(strings.Join(c.Args, " "), gitToken) {
			t.Errorf("the token is in %q", c.Args)
		}
		for _, value := range c.Env {
			if strings.Contains(value, gitToken) && (c.Args[0] != "git" || c.Args[1] != "clone") {
				t.Errorf("%q got the token", c.Args)
			}
		}
	}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, _ := os.ReadFile(path); bytes.Contains(b, []byte(gitToken)) {
				t.Errorf("the token is in %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// watchArguments collects what /proc shows of all processes' arguments until
// the returned function is called.
func watchArguments(t *testing.T) func() string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	collected := make(chan string)
	go func() {
		var all strings.Builder
		for ctx.Err() == nil {
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, name := range lines {
				if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(gitToken)) {
					all.Write(b)
				}
			}
			time.Sleep(2 * time.Millisecond) // a look every so often, not a wait for something
		}
		collected <- all.String()
	}()
	return func() string { cancel(); return <-collected }
}

func TestRejectedGitTokenHoldsTheSlot(t *testing.T) {
	server, _ := gitServer(t)
	for name, p := range map[string]Preparation{
		"wrong token": {GitToken: "ghp_wrongtoken1"},
		"no token":    {},
	} {
		s, env := newSandbox(t)
		p.Environment, p.Repos = env, []Repo{{URL: server.URL + "/app.git"}}
		err := Prepare(t.Context(), s, p, &bytes.Buffer{})
		var failed *PrepareError
		if !errors.As(err, &failed) || failed.Kind != KindGitAuth || !failed.Holds() || strings.Contains(err.Error(), "ghp_") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "repos/app")); err == nil {
			t.Errorf("%s: a failed clone is there under its name", name)
		}
	}
}

func TestCredentialsInTheURLTravelAsASecret(t *testing.T) {
	server, _ := gitServer(t)
	s, env := newSandbox(t)
	url := strings.Replace(server.URL, "http://", "http://me:"+gitToken+"@", 1) + "/app.git"
	var out bytes.Buffer
	if err := Prepare(t.Context(), s, Preparation{Environment: env, Repos: []Repo{{URL: url}}}, &out); err != nil {
		t.Fatal(err)
	}
	noToken(t, s, "", out.String())
	s2, env2 := newSandbox(t)
	err := Prepare(t.Context(), s2, Preparation{Environment: env2, Repos: []Repo{{URL: strings.Replace(url, "app.git", "none.git", 1)}}}, &out)
	var failed *PrepareError
	if !errors.As(err, &failed) || failed.Kind != KindFailed || strings.Contains(err.Error(), gitToken) {
		t.Errorf("a missing repository: %v", err)
	}
}

func TestAnObstacleIsNotAClone(t *testing.T) {
	s, env := newSandbox(t)
	write(t, filepath.Join(s.dir, "repos/app/notes.txt"), "mine", 0o600)
	err := Prepare(t.Context(), s, Preparation{Environment: env, Repos: []Repo{{URL: "https://git.example.com/app"}}}, &bytes.Buffer{})
	var failed *PrepareError
	if !errors.As(err, &failed) || failed.Kind != KindInvalid || read(t, s.dir, "repos/app/notes.txt") != "mine" {
		t.Errorf("%v", err)
	}
}

func TestRepoNames(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.com/org/app.git": "app", "https://github.com/org/app/": "app", "git@github.com:org/my.app.git": "my.app",
		"git@host:app": "app", "ssh://git@host/x/y-z": "y-z", "/srv/git/tool.git": "tool",
		"https://host/..": "", "https://host/.git": "", "https://host/-x": "", "https://host/a b": "", "": "",
	} {
		if got := (Repo{URL: url}).Name(); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}

func TestRepositoriesThatCannotBe(t *testing.T) {
	for name, p := range map[string]Preparation{
		"equal names":        {Repos: []Repo{{URL: "https://a/x/app.git"}, {URL: "https://b:pass99word@b/App"}}},
		"no name":            {Repos: []Repo{{URL: "https://host/.."}}},
		"negative depth":     {Repos: []Repo{{URL: "https://host/a", Depth: -1}}},
		"branch like a flag": {Repos: []Repo{{URL: "https://host/a", Branch: "--upload-pack=x"}}},
		"token in the clear": {Repos: []Repo{{URL: "http://git.example.com/a"}}, GitToken: gitToken},
	} {
		s, env := newSandbox(t)
		p.Environment = env
		err := Prepare(t.Context(), s, p, &bytes.Buffer{})
		var failed *PrepareError
		if !errors.As(err, &failed) || failed.Kind != KindInvalid || len(s.cmds) != 0 || strings.Contains(err.Error(), "pass99word") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShownURLs(t *testing.T) {
	for url, want := range map[string]string{
		"https://TOKEN@host/a": "https://host/a", "https://u:p@host/a": "https://host/a", "ssh://git:p@host/a": "ssh://git@host/a",
		"git@host:a": "git@host:a", "/srv/a": "/srv/a",
	} {
		if got := (Repo{URL: url}).shown(); got != want {
			t.Errorf("%q: %q", url, got)
		}
	}
}
