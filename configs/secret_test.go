package configs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const hidden = "hunter2-hunter2"

func privateFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecretsAreReadFromTheirSource(t *testing.T) {
	t.Setenv("MY_SECRET", "from-env\n")
	t.Setenv("OUT_OF_REACH", "x")
	for name, c := range map[string]struct {
		secret       Secret
		want, source string
	}{
		"env":      {Secret{Env: "MY_SECRET"}, "from-env", "MY_SECRET in the environment"},
		"file":     {Secret{File: privateFile(t, "s", "  from-file \r\n")}, "from-file", "the file "},
		"env file": {Secret{Env: "A", EnvFile: privateFile(t, ".env", "A=from-env-file")}, "from-env-file", "A in the file "},
		"command":  {Secret{Command: "echo from; echo command; echo noise >&2"}, "from\ncommand", "a command"},
		"clean environment of the command": {
			Secret{Command: `echo "${HOME:+home} ${PATH:+path} ${OUT_OF_REACH:-nothing} $(env | cut -d= -f1 | grep -v -e ^_ -e PWD -e SHLVL -e OLDPWD | sort | tr '\n' ,)"`},
			"home path nothing HOME,PATH,", "a command"},
	} {
		got, err := c.secret.Read(t.Context())
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if !strings.HasPrefix(c.secret.Source(), c.source) {
			t.Errorf("%s: the source is %q", name, c.secret.Source())
		}
	}
}

func TestSecretsThatCannotBeRead(t *testing.T) {
	open := privateFile(t, "open", hidden)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("EMPTY_SECRET", " \n")
	for name, c := range map[string]struct {
		secret Secret
		want   string
	}{
		"no source":        {Secret{}, "no source is named"},
		"variable not set": {Secret{Env: "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set in the environment; export it"},
		"empty variable":   {Secret{Env: "EMPTY_SECRET"}, "EMPTY_SECRET in the environment is empty"},
		"no file":          {Secret{File: "/nowhere/token"}, "cannot read the secret file /nowhere/token: no such file"},
		"open file":        {Secret{File: open}, "run: chmod 600 " + open},
		"folder":           {Secret{File: t.TempDir()}, "is not a regular file"},
		"pipe":             {Secret{File: pipe}, "is not a regular file"},
		"empty file":       {Secret{File: privateFile(t, "empty", "\n")}, "is empty"},
		"binary file":      {Secret{File: privateFile(t, "binary", hidden+"\x00")}, "does not hold text"},
		"not UTF-8":        {Secret{File: privateFile(t, "latin", hidden+"\xff")}, "does not hold text"},
		"huge file":        {Secret{File: privateFile(t, "huge", strings.Repeat(hidden, 10000))}, "larger than 64 KiB"},
		"not in env file":  {Secret{Env: "B", EnvFile: privateFile(t, ".env", "A="+hidden)}, "B is not set in "},
		"failing command":  {Secret{Command: "echo " + hidden + "; echo " + hidden + " >&2; exit 3"}, "failed (exit status 3)"},
		"missing command":  {Secret{Command: hidden}, "failed (exit status 127)"},
		"silent command":   {Secret{Command: "true"}, "a command is empty"},
		"flooding command": {Secret{Command: "yes " + hidden + " | head -c 200000"}, "more than 64 KiB"},
		"killed command":   {Secret{Command: "kill -9 $$"}, "failed (signal: killed)"},
	} {
		value, err := c.secret.Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || value != "" {
			t.Errorf("%s: %v, want …%s", name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: the secret is shown: %v", name, err)
		}
	}
}

func TestASecretCommandHasATimeLimit(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "pid")
	// The shell's child holds the output open and would outlive it.
	command := "sleep 600 & echo $! > " + mark + "; wait"
	started := time.Now()
	_, err := runSecretCommand(t.Context(), command, 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "took longer than 300ms") {
		t.Errorf("the error is %v", err)
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	text, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	expectGone(t, pid)
}

// expectGone waits until the process has ended; as an orphan it may stay a
// zombie where no init reaps.
func expectGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if syscall.Kill(pid, 0) != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d is still alive", pid)
}

func TestASecretCommandCanBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Secret{Command: "sleep 600"}).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
