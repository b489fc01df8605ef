package launch_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
	"github.com/outpostpool/pool/providers/launch/launchtest"
)

// rig is a run directory and a shell.
type rig struct {
	*testing.T
	dir, path, run string
}

func underEachShell(t *testing.T, test func(r *rig)) {
	for _, shell := range launchtest.Shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := launchtest.ShellPath(t.TempDir(), shell)
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t, t.TempDir(), path, strings.ReplaceAll(t.Name(), "/", ".")}
			if err := os.WriteFile(r.dir+"/launch.sh", launch.Script, 0o600); err != nil {
				t.Fatal(err)
			}
			test(r)
		})
	}
}

func (r *rig) input(script string) []byte {
	r.Helper()
	text, err := launch.Input(providers.Cmd{Args: []string{"sh", "-c", script}, Env: map[string]string{"PATH": r.path}}, r.run)
	if err != nil {
		r.Fatal(err)
	}
	return text
}

// call runs the script as a provider would and returns its answer.
func (r *rig) call(id string, epoch int, input []byte) launch.Answer {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var sh string
	for _, dir := range filepath.SplitList(r.path) {
		if _, err := os.Stat(dir + "/sh"); err == nil && sh == "" {
			sh = dir + "/sh"
		}
	}
	cmd := exec.Command(sh, r.dir+"/launch.sh", r.dir, id, strconv.Itoa(epoch))
	cmd.Env = []string{"PATH=" + r.path}
	cmd.Stdin = bytes.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	read, write, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	defer read.Close()
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	_ = write.Close()
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	r.Cleanup(func() {
		if p, ok := r.pid(); ok {
			_ = syscall.Kill(p.Worker.PID, syscall.SIGKILL)
		}
		<-ended
	})
	stop := context.AfterFunc(ctx, func() { _ = read.SetReadDeadline(time.Now()) })
	defer stop()
	var line bytes.Buffer
	if _, err := line.ReadFrom(read); err != nil {
		r.Fatalf("the answer is kept open: %v", err)
	}
	answer, err := launch.ParseAnswer(line.String())
	if err != nil {
		r.Fatal(err)
	}
	return answer
}

func (r *rig) pid() (launch.PID, bool) {
	text, err := os.ReadFile(r.dir + "/worker.pid")
	if err != nil {
		return launch.PID{}, false
	}
	p, err := launch.ParsePID(text)
	return p, err == nil
}

func (r *rig) want(got launch.Answer, want launch.Verdict) {
	r.Helper()
	if got.Verdict != want {
		r.Fatalf("the script answers %+v, want %s", got, want)
	}
}

func (r *rig) exit() launch.Exit {
	r.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if text, err := os.ReadFile(r.dir + "/worker.exit"); err == nil {
			e, err := launch.ParseExit(text)
			if err != nil {
				r.Fatal(err)
			}
			return e
		}
	}
	r.Fatal("no worker.exit")
	return launch.Exit{}
}

func TestScriptStartsAndTells(t *testing.T) {
	underEachShell(t, func(r *rig) {
		r.want(r.call(r.run, 1, r.input("echo out; echo err >&2; umask; exit 9")), launch.Started)
		if e := r.exit(); e.Code != 9 || e.LaunchID != r.run {
			r.Errorf("exit %+v", e)
		}
		mask := syscall.Umask(0o22)
		syscall.Umask(mask)
		log, _ := os.ReadFile(r.dir + "/worker.log")
		if string(log) != "out\nerr\n00"+strconv.FormatInt(int64(mask), 8)+"\n" {
			r.Errorf("the log reads %q", log)
		}
		for _, name := range []string{"worker.log", "worker.pid", "worker.exit", "epoch"} {
			if info, err := os.Stat(r.dir + "/" + name); err != nil || info.Mode().Perm() != 0o600 {
				r.Errorf("%s: %v, %v", name, info, err)
			}
		}
		if _, err := os.Stat(r.dir + "/lock"); err == nil {
			r.Error("the lock is still there")
		}
		r.want(r.call(r.run, 1, r.input("exit 1")), launch.Same)
	})
}

func TestScriptTakesNoHalfInput(t *testing.T) {
	underEachShell(t, func(r *rig) {
		whole := r.input("echo ran >" + r.dir + "/ran; exit 0")
		for _, cut := range []int{0, 5, len(whole) / 2, len(whole) - 3} {
			r.want(r.call(r.run, 1, whole[:cut]), launch.Failed)
		}
		if _, ok := r.pid(); ok {
			r.Error("a worker.pid was written")
		}
		r.want(r.call(r.run, 1, whole), launch.Started)
		r.exit()
	})
}

func TestScriptBreaksStaleLocksOnly(t *testing.T) {
	underEachShell(t, func(r *rig) {
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			r.Skip("no boot id here")
		}
		id := strings.TrimSpace(string(boot))
		for name, holder := range map[string]string{
			"dead":            "999999999.5." + id,
			"number reused":   strconv.Itoa(os.Getpid()) + ".5." + id,
			"before a reboot": strconv.Itoa(os.Getpid()) + ".5.another-boot",
			"died at once":    "",
		} {
			if err := os.Mkdir(r.dir+"/lock", 0o700); err != nil {
				r.Fatal(err)
			}
			if holder != "" {
				_ = os.WriteFile(r.dir+"/lock/"+holder, nil, 0o600)
			}
			if got := r.call("", 1, nil); got.Verdict != launch.Raised {
				r.Fatalf("%s: %+v", name, got)
			}
		}
		// A living holder keeps it: here this test itself.
		stat, _ := os.ReadFile("/proc/self/stat")
		start := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[19]
		if err := os.Mkdir(r.dir+"/lock", 0o700); err != nil {
			r.Fatal(err)
		}
		mine := r.dir + "/lock/" + strconv.Itoa(os.Getpid()) + "." + start + "." + id
		_ = os.WriteFile(mine, nil, 0o600)
		if got := r.call("", 1, nil); got.Verdict != launch.Failed || !strings.Contains(got.Why, "lock") {
			r.Errorf("a held lock was broken: %+v", got)
		}
		if _, err := os.Stat(mine); err != nil {
			r.Error(err)
		}
	})
}

func TestScriptManyAtOnceStartOne(t *testing.T) {
	underEachShell(t, func(r *rig) {
		input := r.input("echo started >>" + r.dir + "/starts; exec sleep 60")
		answers := make(chan launch.Answer, 6)
		for i := range cap(answers) {
			go func() { answers <- r.call(r.run+"."+strconv.Itoa(i), 1, input) }()
		}
		count := map[launch.Verdict]int{}
		for range cap(answers) {
			count[(<-answers).Verdict]++
		}
		if count[launch.Started] != 1 || count[launch.Conflict] != 5 {
			r.Errorf("answers %v, want one start and five conflicts", count)
		}
		if starts, _ := os.ReadFile(r.dir + "/starts"); string(starts) != "started\n" {
			r.Errorf("starts: %q", starts)
		}
	})
}

func TestScriptKeeperTakesSignalsAndWorkerOutlivesIt(t *testing.T) {
	underEachShell(t, func(r *rig) {
		r.want(r.call(r.run, 1, r.input("exec sleep 60")), launch.Started)
		p, _ := r.pid()
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			if err := syscall.Kill(p.Keeper.PID, sig); err != nil {
				r.Fatalf("the keeper is gone before %v: %v", sig, err)
			}
		}
		if err := syscall.Kill(p.Worker.PID, syscall.SIGKILL); err != nil {
			r.Fatal(err)
		}
		if e := r.exit(); e.Code != 137 {
			r.Errorf("after signals to the keeper: %+v, want code 137", e)
		}
		// With its keeper killed the worker lives, and still is in the way.
		r.want(r.call(r.run+".b", 1, r.input("exec sleep 60")), launch.Started)
		p, _ = r.pid()
		if err := syscall.Kill(p.Keeper.PID, syscall.SIGKILL); err != nil {
			r.Fatal(err)
		}
		r.want(r.call(r.run+".c", 1, r.input("exit 0")), launch.Conflict)
		_ = syscall.Kill(p.Worker.PID, syscall.SIGKILL)
		for syscall.Kill(p.Worker.PID, 0) == nil && !zombie(p.Worker.PID) {
			time.Sleep(10 * time.Millisecond)
		}
		r.want(r.call(r.run+".c", 1, r.input("exit 0")), launch.Started)
	})
}

func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestScriptEpoch(t *testing.T) {
	underEachShell(t, func(r *rig) {
		r.want(r.call("", 5, nil), launch.Raised)
		if got := r.call(r.run, 4, r.input("exit 0")); got.Verdict != launch.Stale || got.Epoch != 5 {
			r.Errorf("a lower epoch: %+v", got)
		}
		r.want(r.call(r.run, 6, r.input("exit 0")), launch.Started)
		if text, _ := os.ReadFile(r.dir + "/epoch"); launch.ParseEpoch(text) != 6 {
			r.Errorf("the epoch is %q, want 6", text)
		}
	})
}

// macOS has no setsid, but perl.
func TestScriptWithoutSetsid(t *testing.T) {
	perl, err := exec.LookPath("perl")
	if err != nil {
		t.Skip("no perl")
	}
	dir := t.TempDir()
	path, err := launchtest.ShellPath(dir, "busybox")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/setsid"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(perl, dir+"/perl"); err != nil {
		t.Fatal(err)
	}
	r := &rig{t, t.TempDir(), path, "no-setsid"}
	if err := os.WriteFile(r.dir+"/launch.sh", launch.Script, 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(r.call(r.run, 1, r.input(`sleep 0.3; cut -d" " -f6 /proc/$$/stat; exit 4`)), launch.Started)
	p, _ := r.pid()
	if e := r.exit(); e.Code != 4 {
		r.Errorf("exit %+v", e)
	}
	if log, _ := os.ReadFile(r.dir + "/worker.log"); string(log) != strconv.Itoa(p.Worker.PID)+"\n" {
		r.Errorf("its session is %q, want its own, %d", log, p.Worker.PID)
	}
}

func TestScriptsAreClean(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("no shellcheck")
	}
	if out, err := exec.Command("shellcheck", "launch.sh", "tree.sh").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
