package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outpostpool/pool/providers"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// execSandbox runs real commands in a folder; it can do nothing else.
type execSandbox struct {
	providers.Sandbox
	dir string

	mu   sync.Mutex
	cmds []providers.Cmd
}

func (s *execSandbox) Info(context.Context) (providers.Info, error) {
	return providers.Info{State: providers.Running, Workspace: s.dir}, nil
}

func (s *execSandbox) Exec(ctx context.Context, c providers.Cmd) (providers.Exit, error) {
	s.mu.Lock()
	s.cmds = append(s.cmds, c)
	s.mu.Unlock()
	program, err := lookIn(c.Env["PATH"], c.Args[0])
	if err != nil {
		return providers.Exit{Code: 127, Known: true}, nil
	}
	cmd := exec.CommandContext(ctx, program, c.Args[1:]...)
	cmd.Args[0] = c.Args[0]
	cmd.Dir, cmd.Env = s.dir, []string{}
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	var failed *exec.ExitError
	if ctx.Err() != nil {
		return providers.Exit{}, &providers.Error{Class: providers.Unknown, Op: "exec", Err: ctx.Err()}
	}
	if err != nil && !errors.As(err, &failed) {
		return providers.Exit{}, providers.Errorf(providers.Transient, "exec", "%w", err)
	}
	return providers.Exit{Code: cmd.ProcessState.ExitCode(), Known: true}, nil
}

func lookIn(path, program string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, program)
		if info, err := os.Stat(full); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return full, nil
		}
	}
	return "", os.ErrNotExist
}

func newSandbox(t *testing.T) (*execSandbox, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	return &execSandbox{dir: dir}, map[string]string{
		"PATH": filepath.Join(dir, "bin") + ":/usr/local/bin:/usr/bin:/bin", "HOME": filepath.Join(dir, ".home"), "WORKSPACE": dir,
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProbeAndVersion(t *testing.T) {
	s, env := newSandbox(t)
	write(t, filepath.Join(s.dir, "bin", "devin"), `#!/bin/sh
case "$*" in
"worker start --help") echo "Usage: devin worker start [--pool <POOL>]" >&2 ;;
--version) echo "devin 3000.2.17 (260a97c8)" ;;
*) exit 9 ;;
esac`, 0o700)
	command := []string{"devin", "worker", "start", "--outpost={outpost}"}
	flags, err := ProbeFlag(t.Context(), s, command, env)
	if err != nil || flags.Outpost != poolFlag {
		t.Errorf("%v, %v", flags, err)
	}
	version, err := Version(t.Context(), s, command, env)
	if err != nil || version != "devin 3000.2.17 (260a97c8)" {
		t.Errorf("%q, %v", version, err)
	}
	if flags, err := ProbeFlag(t.Context(), s, []string{"mine", "run"}, env); err != nil || flags.Outpost != outpostFlag {
		t.Errorf("another command: %v, %v", flags, err)
	}
}

func TestMissingAndDanglingCLI(t *testing.T) {
	s, env := newSandbox(t)
	command := []string{"devin", "worker", "start"}
	_, err := ProbeFlag(t.Context(), s, command, env)
	if !providers.Is(err, providers.Invalid) || !strings.Contains(err.Error(), "not found") {
		t.Errorf("missing: %v", err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../gone/current/bin/devin", filepath.Join(s.dir, "bin", "devin")); err != nil {
		t.Fatal(err)
	}
	_, err = Version(t.Context(), s, command, env)
	if !providers.Is(err, providers.Invalid) || !strings.Contains(err.Error(), "devin update") || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("dangling: %v", err)
	}
}

func TestPrepareScript(t *testing.T) {
	s, env := newSandbox(t)
	var out bytes.Buffer
	err := Prepare(t.Context(), s, Preparation{Environment: env, Script: "pwd; echo made > made; echo to stderr >&2; printf 'no newline'"}, &out)
	if err != nil || read(t, s.dir, "made") != "made\n" || out.String() != s.dir+"\nto stderr\nno newline\n" {
		t.Errorf("%v; output %q", err, out.String())
	}
	err = Prepare(t.Context(), s, Preparation{Environment: env, Script: "for i in 1 2 3 4 5 6 7; do echo line $i; done; exit 7"}, &out)
	var failed *PrepareError
	if !errors.As(err, &failed) || failed.Kind != KindFailed || failed.Holds() ||
		!strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "line 3 | line 4 | line 5 | line 6 | line 7") {
		t.Errorf("%v", err)
	}
}

func TestPrepareKeepsItsTimeLimit(t *testing.T) {
	s, env := newSandbox(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := Prepare(ctx, s, Preparation{Environment: env, Script: "echo begun; sleep 1000"}, &bytes.Buffer{})
	var failed *PrepareError
	if !errors.As(err, &failed) || failed.Kind != KindTimeout || !strings.Contains(err.Error(), "begun") {
		t.Errorf("%v", err)
	}
}

// tools runs the tools step where only the named programs exist. The installer
// notes its arguments and "installs" git.
func tools(t *testing.T, uid, installer string) (string, error) {
	s, env := newSandbox(t)
	bin := filepath.Join(s.dir, "bin")
	write(t, filepath.Join(bin, "id"), "#!/bin/sh\necho "+uid, 0o700)
	if installer != "" {
		write(t, filepath.Join(bin, installer), "#!/bin/sh\necho \"$@\" >> \""+s.dir+"/asked\"\nprintf '#!/bin/sh\\n' > "+bin+"/git; /bin/chmod 700 "+bin+"/git\n", 0o700)
	}
	if err := os.Symlink("/bin/sh", filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	env["PATH"] = bin
	env["SSL_CERT_FILE"] = "/dev/null" // readable: only git is missing
	err := Prepare(t.Context(), s, Preparation{Environment: env}, &bytes.Buffer{})
	asked, _ := os.ReadFile(filepath.Join(s.dir, "asked"))
	return string(asked), err
}

func TestToolsAreInstalledByWhatExists(t *testing.T) {
	for installer, want := range map[string]string{
		"apt-get": "update -qq\ninstall -y -qq --no-install-recommends git\n", "apk": "add --no-cache git\n", "dnf": "install -y -q git\n",
	} {
		if asked, err := tools(t, "0", installer); err != nil || asked != want {
			t.Errorf("%s: %v; asked %q", installer, err, asked)
		}
	}
	for name, c := range map[string]struct{ uid, installer, text string }{
		"not root":     {"1000", "apt-get", "not root"},
		"no installer": {"0", "", "no apt-get, apk or dnf"},
	} {
		asked, err := tools(t, c.uid, c.installer)
		var failed *PrepareError
		if !errors.As(err, &failed) || failed.Kind != KindTools || asked != "" ||
			!strings.Contains(err.Error(), "missing: git") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; asked %q", name, err, asked)
		}
	}
}
