package launch

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outpostpool/pool/providers"
)

//go:embed tree.sh
var treeScript string

// Host is what a provider has that can only execute commands in a sandbox.
type Host interface {
	// Exec is Sandbox.Exec. The driver's commands are short; they need a
	// POSIX shell with the usual small tools, or BusyBox.
	Exec(ctx context.Context, c providers.Cmd) (providers.Exit, error)
	// Detach starts argv in a session of its own, with no signal ignored, so
	// that it outlives its caller and this program. It feeds stdin, closes it,
	// and returns all of the output once that is closed, which is at once. An
	// error without a class means that argv may have started. The bytes of
	// stdin are secret.
	Detach(ctx context.Context, argv []string, stdin []byte) (answer string, err error)
	// RunDir and Workspace are absolute paths in the sandbox. The driver makes
	// the run directory when it is missing.
	RunDir() string
	Workspace() string
}

// Options of a driver; zero values are the defaults.
type Options struct {
	// Path is where the driver's own commands are found in the sandbox.
	Path string
	// Epoch of the supervisor that this sandbox was created for or raised to.
	// 0: the one that is in force when the driver first needs it.
	Epoch int64
	// Poll is the pause between two looks at a process or its output; 500 ms.
	Poll time.Duration
	// Sleep and Now stand in for the clock.
	Sleep func(ctx context.Context, d time.Duration) error
	Now   func() time.Time
}

// Driver launches and follows workers in one sandbox over Exec alone. It is
// safe for concurrent use and implements providers.Epocher.
type Driver struct {
	host Host
	opts Options

	mu    sync.Mutex
	epoch int64
}

// New returns a driver for one sandbox.
func New(h Host, o Options) *Driver {
	if o.Path == "" {
		o.Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	if o.Poll <= 0 {
		o.Poll = 500 * time.Millisecond
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Driver{host: h, opts: o, epoch: o.Epoch}
}

// Launch is Sandbox.Launch.
func (d *Driver) Launch(ctx context.Context, launchID string, c providers.Cmd) (providers.Process, error) {
	op := "launch " + launchID
	switch {
	case c.Dir == "":
		c.Dir = d.host.Workspace()
	case !path.IsAbs(c.Dir):
		c.Dir = path.Join(d.host.Workspace(), c.Dir)
	}
	input, err := Input(c, launchID)
	if err != nil {
		return nil, err
	}
	epoch, err := d.heldEpoch(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := d.call(ctx, op, launchID, epoch, input)
	if err != nil {
		return nil, err
	}
	switch answer.Verdict {
	case Started, Same:
	case Conflict:
		return nil, &providers.Error{Class: providers.Conflict, Op: op,
			Err:  fmt.Errorf("worker %s still lives in this sandbox", answer.LaunchID),
			Hint: "stop it first"}
	case Stale:
		return nil, staleError(op, epoch, answer.Epoch)
	case Failed:
		return nil, providers.Errorf(providers.Transient, op, "nothing was started: %s", answer.Why)
	default:
		return nil, providers.Errorf(providers.Unknown, op, "the launch script answered %q", answer.Verdict)
	}
	p, err := d.last(ctx, op)
	if err != nil {
		return nil, err
	}
	if p.rec.LaunchID != launchID {
		return nil, providers.Errorf(providers.Unknown, op, "the sandbox now names launch %s", p.rec.LaunchID)
	}
	return p, nil
}

// Process is Sandbox.Process.
func (d *Driver) Process(ctx context.Context) (providers.Process, error) {
	p, err := d.last(ctx, "find the worker")
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Epoch reads the epoch in force.
func (d *Driver) Epoch(ctx context.Context) (int64, error) {
	out, err := d.run(ctx, "read the epoch", `cat "$1/epoch" 2>/dev/null || :`, d.host.RunDir())
	if err != nil {
		return 0, err
	}
	return ParseEpoch(out), nil
}

// RaiseEpoch raises the epoch; one below that in force is class Conflict.
// Later launches of this driver carry it.
func (d *Driver) RaiseEpoch(ctx context.Context, epoch int64) error {
	op := fmt.Sprintf("raise the epoch to %d", epoch)
	if epoch < 0 {
		return providers.Errorf(providers.Invalid, op, "an epoch is not negative")
	}
	answer, err := d.call(ctx, op, "", epoch, nil)
	if err != nil {
		return err
	}
	switch answer.Verdict {
	case Raised:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.epoch = max(d.epoch, epoch)
		return nil
	case Stale:
		return staleError(op, epoch, answer.Epoch)
	case Failed:
		return providers.Errorf(providers.Transient, op, "%s", answer.Why)
	default:
		return providers.Errorf(providers.Unknown, op, "the launch script answered %q", answer.Verdict)
	}
}

func (d *Driver) heldEpoch(ctx context.Context) (int64, error) {
	d.mu.Lock()
	held := d.epoch
	d.mu.Unlock()
	if held > 0 {
		return held, nil
	}
	inForce, err := d.Epoch(ctx)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch = max(d.epoch, inForce)
	return d.epoch, nil
}

// call puts the script in place and runs it. It is written anew each time, so
// that a sandbox made by an older pool gets the script this one expects.
func (d *Driver) call(ctx context.Context, op, launchID string, epoch int64, input []byte) (Answer, error) {
	const install = `umask 077 && mkdir -p "$1" && cat >"$1/launch.sh.$$" && mv -f "$1/launch.sh.$$" "$1/launch.sh"`
	dir := d.host.RunDir()
	if _, err := d.feed(ctx, op, Script, install, dir); err != nil {
		return Answer{}, err
	}
	argv := []string{"env", "-i", "PATH=" + d.opts.Path, "sh", path.Join(dir, ScriptFile),
		dir, launchID, strconv.FormatInt(epoch, 10)}
	text, err := d.host.Detach(ctx, argv, input)
	if err != nil {
		return Answer{}, classed(op, err)
	}
	answer, err := ParseAnswer(text)
	if err != nil {
		return Answer{}, providers.Errorf(providers.Unknown, op, "%w", err)
	}
	return answer, nil
}

// last reads worker.pid.
func (d *Driver) last(ctx context.Context, op string) (*process, error) {
	out, err := d.run(ctx, op, `cat "$1/worker.pid" 2>/dev/null || :`, d.host.RunDir())
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, providers.Errorf(providers.NotFound, op, "no worker was ever launched in this sandbox")
	}
	rec, err := ParsePID(out)
	if err != nil {
		return nil, providers.Errorf(providers.Unknown, op, "%w", err)
	}
	return &process{d: d, rec: rec}, nil
}

func (d *Driver) run(ctx context.Context, op, script string, args ...string) ([]byte, error) {
	return d.feed(ctx, op, nil, script, args...)
}

// feed runs shell text with arguments and input, and returns its output. A
// failed command is class Transient: all of them are safe to repeat.
func (d *Driver) feed(ctx context.Context, op string, stdin []byte, script string, args ...string) ([]byte, error) {
	out, exit, err := d.sh(ctx, stdin, script, args...)
	if err != nil {
		return nil, classed(op, err)
	}
	if exit.Code != 0 {
		return nil, providers.Errorf(providers.Transient, op, "a helper in the sandbox failed with code %d: %s", exit.Code, exit.complaint)
	}
	return out, nil
}

type helperExit struct {
	providers.Exit
	complaint string
}

func (d *Driver) sh(ctx context.Context, stdin []byte, script string, args ...string) ([]byte, helperExit, error) {
	var out, errs bytes.Buffer
	exit, err := d.host.Exec(ctx, providers.Cmd{
		Args:   append([]string{"sh", "-c", script, "sh"}, args...),
		Env:    map[string]string{"PATH": d.opts.Path, "LC_ALL": "C"},
		Dir:    "/",
		Stdin:  bytes.NewReader(stdin),
		Stdout: &out,
		Stderr: &errs,
	})
	if err == nil && !exit.Known {
		err = errors.New("a helper in the sandbox ended without an exit code")
	}
	complaint := strings.TrimSpace(errs.String())
	if len(complaint) > 200 {
		complaint = complaint[:200]
	}
	return out.Bytes(), helperExit{exit, complaint}, err
}

func staleError(op string, ours, inForce int64) error {
	return &providers.Error{Class: providers.Conflict, Op: op,
		Err:  fmt.Errorf("epoch %d is in force in this sandbox, ours is %d", inForce, ours),
		Hint: "another supervisor has taken this pool over"}
}

// classed puts op before an error and keeps its class.
func classed(op string, err error) error {
	return &providers.Error{Class: providers.ClassOf(err), Op: op, Err: err, RetryAfter: providers.RetryAfter(err)}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
