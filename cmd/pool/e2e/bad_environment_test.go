package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outpostpool/pool/pool/control"
)

// installCLI puts a stand-in where devin's installer puts the real one: a link
// in ~/.local/bin to a program below ~/.local/share/devin.
func (w *world) installCLI() {
	w.Helper()
	bin := filepath.Join(w.home, ".local", "share", "devin", "cli", "_versions", "current", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		w.Fatal(err)
	}
	w.install(binary, filepath.Join(bin, "stand-in"))
	w.write(filepath.Join(bin, "devin"), `#!/bin/sh
if [ "$1" = --version ]; then echo "devin 3000.6.7 (260a97c8)"; exit; fi
shift # worker
exec "$(dirname "$(readlink -f "$0")")/stand-in" __worker "$@"
`, 0o755)
	link := filepath.Join(w.home, ".local", "bin", "devin")
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.Symlink("../share/devin/cli/_versions/current/bin/devin", link); err != nil {
		w.Fatal(err)
	}
}

// bare runs the program with these variables and no other, as cron does, in
// the root folder.
func (w *world) bare(env []string, args ...string) result {
	w.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(w.binary, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append([]string{}, env...), "/", &out, &errs
	cmd.WaitDelay = 2 * time.Second
	stop := time.AfterFunc(commandLimit, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	err := cmd.Run()
	if cmd.ProcessState == nil {
		w.Fatal(err)
	}
	return result{args, cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestTwoVariablesAndNoFileAreEnough(t *testing.T) {
	for _, names := range [][2]string{{"OUTPOST_ID", "DEVIN_OUTPOSTS_TOKEN"}, {"DEVIN_OUTPOST_ID", "DEVIN_API_TOKEN"}} {
		t.Run(names[0], func(t *testing.T) {
			w := newWorld(t)
			w.withoutFile()
			w.installCLI()
			w.env["DEVIN_OUTPOSTS_TOKEN"] = ""
			w.env[names[0]], w.env[names[1]] = "e2e", token
			w.env["DEVIN_API_URL"] = w.api.URL + "/opbeta" // loopback instead of the real one
			if r := w.up("--workers", "1"); !strings.Contains(r.err, "/opbeta") {
				t.Errorf("%s\nsays nothing of the path it leaves out", r)
			}
			session := w.api.add(time.Second)
			w.within(60*time.Second, "a session is served", func() bool { return w.api.session(session).Done })
			if r := w.run("doctor"); r.code != 0 || !strings.Contains(r.out, "devin 3000.6.7") {
				t.Errorf("%s\nwant all checks passed, and the CLI's version", r)
			}
		})
	}
}

func TestAnEnvFileAsTheGuidesWriteIt(t *testing.T) {
	w := newWorld(t)
	w.withoutFile()
	w.installCLI()
	w.env["DEVIN_OUTPOSTS_TOKEN"] = ""
	file := filepath.Join(w.dir, ".env")
	text := "# from the guide\nexport DEVIN_OUTPOSTS_TOKEN=\"" + token + "\"\nOUTPOST_ID='e2e'\n\nDEVIN_API_URL=" + w.api.URL + " # the double\n"
	w.write(file, text, 0o644)
	w.refuse(2, []string{"up", "-d", "--env-file", file}, file, "chmod 600")
	w.write(file, text+"no pair\n", 0o600)
	w.refuse(2, []string{"up", "-d", "--env-file", file}, file+":6", "KEY=VALUE")
	w.refuse(2, []string{"up", "-d", "--env-file", file + ".none"}, file+".none")
	w.write(file, text, 0o600)
	w.up("--workers", "1", "--env-file", ".env")
	session := w.api.add(time.Second)
	w.within(60*time.Second, "a session is served", func() bool { return w.api.session(session).Done })
}

func TestCronsBareEnvironment(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "token")
	w.write(file, token+"\n", 0o600)
	w.set("pool.state_dir", w.state) // no XDG_STATE_HOME and no HOME there
	w.set("pool.workers", 1)
	w.set("outpost.token_file", file)
	must := func(args ...string) {
		t.Helper()
		if r := w.bare(nil, append([]string{"--config", w.file}, args...)...); r.code != 0 {
			t.Fatalf("%s\n%s", r, w.report())
		}
	}
	must("up", "-d")
	first := w.eventuallyPool("one runs", func(p control.Pool) bool { return p.Running == 1 })
	must("up", "-d")
	must("scale", "2")
	second := w.eventuallyPool("two run", func(p control.Pool) bool { return p.Running == 2 })
	if second.PID != first.PID || worker(second, "web-0").PID != worker(first, "web-0").PID {
		t.Errorf("up -d was no keep-alive: %+v", second)
	}
	must("status")
	must("down")
	// After a down on purpose the keep-alive leaves it down.
	must("up", "-d")
	if _, answers := w.peek(); answers {
		t.Error("the keep-alive started a pool that was taken down on purpose")
	}
	must("up", "-d", "--force")
}
