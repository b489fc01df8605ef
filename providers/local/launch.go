package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

// joinGroups puts the shell into cgroups before it becomes the keeper, so that
// nothing it starts is ever outside, and nobody need be alive to move it.
const joinGroups = `while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"`

// Launch starts the worker under the launch protocol; the keeper and the
// worker outlive this program. Processes that an earlier launch left behind
// are killed first: one of them may still act under the worker's identity.
func (s *Sandbox) Launch(ctx context.Context, launchID string, c providers.Cmd) (providers.Process, error) {
	op := "launch " + s.meta.Name
	if err := s.check(ctx, "launch"); err != nil {
		return nil, err
	}
	if err := checkCmd(op, c); err != nil {
		return nil, err
	}
	s.launching.Lock()
	defer s.launching.Unlock()
	before, err := s.current()
	if err != nil {
		return nil, err
	}
	if before != nil && before.LaunchID == launchID {
		return &Process{s: s, l: before}, nil
	}
	input, err := s.input(launchID, c)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if err := s.clearAway(ctx, op, before); err != nil {
			return nil, err
		}
	}
	joined, err := s.p.groups.enter(s.group(), s.meta.Resources)
	if err != nil {
		return nil, providers.Errorf(providers.Transient, op, "%w", err)
	}
	before = &launched{OOMKills: s.p.groups.oomKills(s.group())}
	if cpu, _ := s.p.groups.usage(s.group()); cpu > 0 {
		before.CPUBefore = cpu
	}
	epoch, err := s.epochNow()
	if err != nil {
		return nil, fileError(op, err)
	}
	answer, keeper, err := s.callScript(ctx, op, launchID, epoch, input, joined)
	if err != nil {
		return nil, err
	}
	if err := answered(op, answer); err != nil {
		return nil, err
	}
	return s.started(op, launchID, keeper, before)
}

// input is the script's input for a command. The walls' arguments are argv;
// variables travel on standard input only.
func (s *Sandbox) input(launchID string, c providers.Cmd) ([]byte, error) {
	c = providers.Cmd{Args: s.argv(providers.Cmd{Args: c.Args, Dir: c.Dir}), Env: s.environment(c.Env), Dir: "/"}
	return launch.Input(c, launchID)
}

// clearAway is a Conflict while the worker of another launch lives, and kills
// what a dead one left.
func (s *Sandbox) clearAway(ctx context.Context, op string, l *launched) error {
	_, ended, err := (&Process{s: s, l: l}).ended()
	if err != nil {
		return err
	}
	if !ended {
		return providers.Errorf(providers.Conflict, op, "the worker of launch %s is alive", l.LaunchID)
	}
	if left := s.killAll(ctx); left != "" {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &providers.Error{Class: providers.Transient, Op: op, Err: errors.New(left), Hint: "end them by hand if they stay"}
	}
	return nil
}

// started records what the script started; before has the group's counters.
func (s *Sandbox) started(op, launchID string, keeper int, before *launched) (providers.Process, error) {
	data, err := readSmall(s.run, launch.PIDFile)
	if err != nil {
		return nil, providers.Errorf(providers.Unknown, op, "%w", err)
	}
	file, err := launch.ParsePID(data)
	if err != nil || file.LaunchID != launchID {
		return nil, providers.Errorf(providers.Unknown, op, "the pid file speaks of another launch")
	}
	l := s.fromPIDFile(file)
	l.believed, l.OOMKills, l.CPUBefore = true, before.OOMKills, before.CPUBefore
	l.child = l.Keeper.PID == keeper
	s.mu.Lock()
	s.last = l
	s.mu.Unlock()
	if err := writeJSON(s.dir, launchFile, l); err != nil {
		return nil, providers.Errorf(providers.Unknown, op, "%w", err)
	}
	return &Process{s: s, l: l}, nil
}

// answered gives the script's refusals their class.
func answered(op string, a launch.Answer) error {
	switch a.Verdict {
	case launch.Started, launch.Same, launch.Raised:
		return nil
	case launch.Conflict:
		return providers.Errorf(providers.Conflict, op, "the worker of launch %s is alive", a.LaunchID)
	case launch.Stale:
		return &providers.Error{Class: providers.Conflict, Op: op,
			Err:  fmt.Errorf("a newer supervisor has taken the sandbox over (epoch %d)", a.Epoch),
			Hint: "end this one"}
	default:
		return providers.Errorf(providers.Transient, op, "the launch script says: %s", a.Why)
	}
}

func (s *Sandbox) scriptPath() string {
	return s.p.dir + "/" + s.meta.Name + "/" + runDir + "/" + launch.ScriptFile
}

// callScript runs the launch script and returns its answer and the pid of the
// shell that runs it. Once the input is given, a broken answer is Unknown.
func (s *Sandbox) callScript(ctx context.Context, op, launchID string, epoch int64, input []byte, join []string) (launch.Answer, int, error) {
	fail := func(class providers.Class, err error) (launch.Answer, int, error) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return launch.Answer{}, 0, &providers.Error{Class: class, Op: op, Err: err}
	}
	s.p.reapAll()
	if err := writeSmall(s.run, launch.ScriptFile, launch.Script); err != nil {
		return fail(providers.Transient, err)
	}
	stdin, give, err := os.Pipe()
	if err != nil {
		return fail(providers.Transient, err)
	}
	defer give.Close()
	take, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return fail(providers.Transient, err)
	}
	defer take.Close()

	script := s.scriptPath()
	args := append([]string{"-c", joinGroups, "launch"}, join...)
	args = append(args, "--", s.p.shell, script, s.p.dir+"/"+s.meta.Name+"/"+runDir, launchID, strconv.FormatInt(epoch, 10))
	cmd := exec.Command(s.p.shell, args...)
	cmd.Env, cmd.Dir = []string{"PATH=" + s.p.path}, "/"
	cmd.Stdin, cmd.Stdout = stdin, stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	stdin.Close()
	stdout.Close()
	if err != nil {
		return fail(providers.Transient, err)
	}
	keeper := cmd.Process.Pid
	cmd.Process.Release()
	s.p.adopt(keeper)

	stop := context.AfterFunc(ctx, func() {
		give.SetWriteDeadline(time.Unix(1, 0))
		take.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	if _, err := give.Write(input); err != nil && !errors.Is(err, unix.EPIPE) {
		// Cut off, the script starts nothing.
		return fail(providers.Transient, err)
	}
	give.Close()
	line, err := bufio.NewReader(io.LimitReader(take, maxRecord)).ReadString('\n')
	if err == io.EOF && line == "" {
		err = errors.New("the launch script ended without an answer")
	}
	if err != nil {
		return fail(providers.Unknown, err)
	}
	answer, err := launch.ParseAnswer(line)
	if err != nil {
		return fail(providers.Unknown, err)
	}
	return answer, keeper, nil
}
