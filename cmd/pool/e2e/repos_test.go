package e2e

import (
	"bytes"
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

	"github.com/outpostpool/pool/pool/control"
)

const gitToken = "ghp_e2e_0d4c7be51f9a_hush"

// gitServer serves app.git over HTTP and asks for a password. asked counts
// requests with the right one.
func gitServer(t *testing.T) (url string, asked *atomic.Int32) {
	t.Helper()
	root := t.TempDir()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=e2e", "GIT_AUTHOR_EMAIL=e2e@example.com",
			"GIT_COMMITTER_NAME=e2e", "GIT_COMMITTER_EMAIL=e2e@example.com"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	work := filepath.Join(root, "app")
	git(root, "init", "-q", "-b", "main", "app")
	if err := os.WriteFile(filepath.Join(work, "hello.txt"), []byte("hello from the repository\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git(work, "add", ".")
	git(work, "commit", "-q", "-m", "begin")
	git(root, "clone", "-q", "--bare", "app", "app.git")
	where, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(where)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != gitToken {
			rw.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(rw, "who are you", http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		backend.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestRepositoriesAreClonedAndTheirTokenIsInNoFile(t *testing.T) {
	bothIsolations(t, func(w *world) {
		url, asked := gitServer(w.T)
		w.env["MY_GIT_TOKEN"] = gitToken
		w.set("worker.git_token_env", "MY_GIT_TOKEN")
		w.set("worker.repos", []map[string]any{{"url": url + "/app.git"}})
		w.up("--workers", "2")
		for _, name := range []string{"web-0", "web-1"} {
			if r := w.must("exec", name, "--", "cat", "repos/app/hello.txt"); r.out != "hello from the repository\n" {
				w.Error(r)
			}
			if r := w.must("exec", name, "--", "env"); strings.Contains(r.out, gitToken) {
				w.Error(r)
			}
		}
		for pid, line := range w.workerProcesses() {
			env, _ := os.ReadFile(procPath(pid, "environ"))
			if strings.Contains(line, gitToken) || bytes.Contains(env, []byte(gitToken)) {
				w.Errorf("the worker has the git token: %s", line)
			}
		}
		w.checkNoGitToken()
		// An existing clone is left alone.
		w.must("exec", "web-0", "--", "sh", "-c", "echo unfinished > repos/app/hello.txt")
		before := asked.Load()
		w.must("down", "--now")
		w.up("--force")
		if r := w.must("exec", "web-0", "--", "cat", "repos/app/hello.txt"); r.out != "unfinished\n" || asked.Load() != before {
			w.Errorf("%d requests before, %d after: %s", before, asked.Load(), r)
		}
		w.checkNoGitToken()
	})
}

func TestARejectedGitTokenHoldsTheWorker(t *testing.T) {
	w := newWorld(t)
	url, _ := gitServer(t)
	w.env["MY_GIT_TOKEN"] = "ghp_wrong_0000000000"
	w.set("worker.git_token_env", "MY_GIT_TOKEN")
	w.set("worker.repos", []map[string]any{{"url": url + "/app.git"}})
	r := w.run("up", "-d", "--workers", "1")
	if r.code == 0 || !strings.Contains(r.err, "web-0 (held)") {
		t.Errorf("up must say why the worker does not start: %s", r)
	}
	p := w.eventuallyPool("the worker is held", func(p control.Pool) bool { return worker(p, "web-0").State == "held" })
	if is := worker(p, "web-0"); !strings.Contains(is.Reason, "git") || is.Generation != 1 || strings.Contains(is.Reason, "ghp_wrong") {
		t.Errorf("%+v", is)
	}
}

func (w *world) checkNoGitToken() {
	w.Helper()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(gitToken)) {
				w.Errorf("the git token is in %s", path)
			}
		}
		return nil
	})
	if err != nil {
		w.Error(err)
	}
}
