package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker"
	"github.com/outpostpool/pool/worker/logs"
	"github.com/outpostpool/pool/worker/outpost"
)

// do carries out one action and reports what came of it.
func (r *runner) do(j job) plan.Finished {
	switch j.action.Kind {
	case plan.Create:
		return r.create(j)
	case plan.Look:
		return r.look(j)
	case plan.Prepare:
		return r.prepare(j)
	case plan.Launch:
		return r.launch(j)
	case plan.Stop:
		return r.stop(j)
	case plan.StopIdle:
		return r.stopIdle(j)
	case plan.Release:
		return r.release(j)
	case plan.Remove:
		return r.remove(j)
	}
	return plan.Finished{Class: providers.Invalid, Detail: fmt.Sprintf("no such action: %q", j.action.Kind)}
}

// failed turns an error into a result the planner can act on.
func failed(err error) plan.Finished {
	return plan.Finished{Class: providers.ClassOf(err), RetryAfter: providers.RetryAfter(err), Detail: err.Error()}
}

// open returns the slot's sandbox, by its recorded id or else by its name.
func (r *runner) open(j job) (providers.Sandbox, error) {
	if r.sandbox != nil {
		return r.sandbox, nil
	}
	id := j.slot.Sandbox
	if id == "" {
		id = SandboxName(r.s.set.Name, r.s.uid, r.num, j.slot.Generation)
	}
	sandbox, err := r.s.set.Provider.Open(j.ctx, id)
	if err == nil {
		r.sandbox = sandbox
	}
	return sandbox, err
}

// createPoll is how often a sandbox that is asked for is looked at until it runs.
const createPoll = 500 * time.Millisecond

func (r *runner) create(j job) plan.Finished {
	s := r.s
	sandbox, err := s.set.Provider.Create(j.ctx, providers.Spec{
		Name: SandboxName(s.set.Name, s.uid, r.num, j.slot.Generation),
		Labels: providers.Labels{
			Pool: s.set.Name, UID: s.uid, Slot: r.num, Generation: j.slot.Generation, ConfigHash: j.slot.ConfigHash,
		},
		Image: s.set.Image, Resources: s.set.Resources, Fresh: j.action.Fresh, Epoch: s.epoch,
	})
	for err == nil {
		var info providers.Info
		if info, err = sandbox.Info(j.ctx); err != nil {
			break
		}
		switch info.State {
		case providers.Running:
			r.sandbox = sandbox
			return plan.Finished{OK: true, Sandbox: sandboxOf(info)}
		case providers.Pending, providers.Unclear:
			err = pause(j.ctx, createPoll)
		default:
			err = providers.Errorf(providers.Transient, "create", "the new sandbox is %s: %s", info.State, info.Reason)
		}
	}
	return failed(err)
}

func sandboxOf(info providers.Info) *plan.Sandbox {
	return &plan.Sandbox{ID: info.ID, Incarnation: info.Incarnation, Workspace: info.Workspace, Expires: info.HardEnd}
}

// look finds out what there is: the sandbox, and the worker in it. It takes a
// living worker under watch.
func (r *runner) look(j job) plan.Finished {
	r.sandbox = nil
	sandbox, err := r.open(j)
	if err != nil {
		return failed(err)
	}
	info, err := sandbox.Info(j.ctx)
	if err != nil {
		return failed(err)
	}
	if info.State == providers.Gone {
		return plan.Finished{Class: providers.NotFound, Detail: "the sandbox is gone: " + info.Reason}
	}
	if info.State != providers.Running {
		return plan.Finished{Class: providers.Unknown, Detail: fmt.Sprintf("the sandbox is %s: %s", info.State, info.Reason)}
	}
	if err := r.takeOver(j.ctx, sandbox); err != nil {
		return failed(err)
	}
	// The log must know what to hide before it reads what an adopted worker says.
	env, err := r.environment(j, sandbox)
	if err != nil {
		return failed(err)
	}
	r.s.logs.hide(r.num, worker.Secrets(env))
	found := plan.Finished{OK: true, Sandbox: sandboxOf(info)}
	proc, err := sandbox.Process(j.ctx)
	if providers.Is(err, providers.NotFound) {
		return found
	}
	if err != nil {
		return failed(err)
	}
	found.Worker, err = r.meet(j.ctx, proc)
	if err != nil {
		return failed(err)
	}
	return found
}

// takeOver raises the epoch in the sandbox, so that a supervisor before us can
// launch nothing more there, and stops us where one after us has been.
func (r *runner) takeOver(ctx context.Context, sandbox providers.Sandbox) error {
	epochs, ok := providers.As[providers.Epocher](sandbox)
	if !ok {
		return nil
	}
	seen, err := epochs.Epoch(ctx)
	if err != nil {
		return err
	}
	if seen > r.s.epoch {
		return providers.Errorf(providers.Unauthorized, "adopt "+r.s.name(r.num), "another supervisor has taken this pool over (epoch %d, ours is %d)", seen, r.s.epoch)
	}
	return epochs.RaiseEpoch(ctx, r.s.epoch)
}

// meet learns of a launched process, lets it go on if a crash left it standing
// still, and takes it under watch while it lives.
func (r *runner) meet(ctx context.Context, proc providers.Process) (*plan.Worker, error) {
	info, err := proc.Info(ctx)
	if err != nil {
		return nil, err
	}
	w := &plan.Worker{LaunchID: info.LaunchID, PID: info.PID, Started: info.Started}
	if exit, ended := ended(ctx, proc); ended {
		r.clearAway(proc, exit)
		w.Exit = &exit
		r.follow(proc, info.LaunchID) // its last words may not be in the log yet
		return w, nil
	}
	if err := proc.Signal(ctx, providers.CONT); err != nil && !providers.Is(err, providers.Invalid) {
		return nil, err
	}
	r.attach(proc, info.LaunchID)
	return w, nil
}

// ended asks for a moment whether a process has ended.
func ended(ctx context.Context, proc providers.Process) (providers.Exit, bool) {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	exit, err := proc.Wait(ctx)
	return exit, err == nil
}

func (r *runner) prepare(j job) plan.Finished {
	sandbox, err := r.open(j)
	if err != nil {
		return failed(err)
	}
	env, err := r.environment(j, sandbox)
	if err != nil {
		return failed(err)
	}
	p := r.s.set.Worker.Prepare
	p.Environment = worker.ExecEnvironment(env)
	if read := r.s.set.Worker.GitToken; read != nil {
		if p.GitToken, err = read(j.ctx); err != nil {
			return plan.Finished{Detail: err.Error(), GitAuth: true}
		}
	}
	err = worker.Prepare(j.ctx, sandbox, p, r.s.logs.of(r.num).Notes())
	if err == nil {
		return plan.Finished{OK: true}
	}
	result := failed(err)
	var why *worker.PrepareError
	if errors.As(err, &why) {
		result.GitAuth = why.Holds()
	}
	return result
}

func (r *runner) launch(j job) plan.Finished {
	sandbox, err := r.open(j)
	if err != nil {
		return failed(err)
	}
	env, err := r.environment(j, sandbox)
	if err != nil {
		return failed(err)
	}
	if env.Token == "" {
		// Without a token the CLI would use a stored login and make an outpost
		// of its own (facts outposts.md 1.4).
		return plan.Finished{Class: providers.Unauthorized, Detail: "no token: a worker is never started without one"}
	}
	flags, err := r.s.flags.get(j.ctx, sandbox, r.s.set.Worker.Command, worker.ExecEnvironment(env))
	if err != nil {
		return failed(err)
	}
	served := r.s.fleet.outpost()
	command, err := worker.Command(append(append([]string{}, r.s.set.Worker.Command...), r.s.set.Worker.Args...), worker.Fields{
		Worker: r.s.name(r.num), Slot: strconv.Itoa(r.num), Pool: r.s.set.Name,
		Outpost: cmp.Or(served.ID, served.Name), Acceptor: j.slot.Acceptor,
	}, flags)
	if err != nil {
		return plan.Finished{Class: providers.Invalid, Detail: err.Error()}
	}
	r.s.logs.hide(r.num, worker.Secrets(env))
	r.letFinish(j.ctx)
	proc, err := sandbox.Launch(j.ctx, j.action.LaunchID, providers.Cmd{Args: command, Env: worker.Environment(env)})
	if err != nil {
		return failed(err)
	}
	info, err := proc.Info(j.ctx)
	if err != nil {
		return failed(err)
	}
	r.s.logs.note(r.num, fmt.Sprintf("worker started (pid %d, launch %s)", info.PID, info.LaunchID))
	r.attach(proc, info.LaunchID)
	return plan.Finished{OK: true, Worker: &plan.Worker{LaunchID: info.LaunchID, PID: info.PID, Started: info.Started}}
}

// environment is what the worker's environment is made of, with its secrets
// read anew.
func (r *runner) environment(j job, sandbox providers.Sandbox) (worker.EnvSpec, error) {
	info, err := sandbox.Info(j.ctx)
	if err != nil {
		return worker.EnvSpec{}, err
	}
	w := r.s.set.Worker
	env := worker.EnvSpec{
		Variables: w.Env, Acceptor: j.slot.Acceptor, APIURL: r.s.set.APIURL,
		Home: info.Home, Path: w.Path, Workspace: info.Workspace, CacheDir: info.Cache,
		ChromePath: w.ChromePath, Display: w.Display, Network: w.Network,
	}
	if env.Token, err = r.s.set.Token(j.ctx); err != nil {
		return env, &providers.Error{Class: providers.Unauthorized, Op: "read the token", Err: err}
	}
	if w.Secrets != nil {
		if env.Secrets, err = w.Secrets(j.ctx); err != nil {
			return env, &providers.Error{Class: providers.Invalid, Op: "read the worker's secrets", Err: err}
		}
	}
	return env, nil
}

func (r *runner) stop(j job) plan.Finished {
	proc, result := r.process(j)
	if proc == nil {
		return result
	}
	done, err := worker.Stop(j.ctx, proc, r.s.set.Policy.StopGrace)
	if err != nil {
		return failed(err)
	}
	return r.stopped(j, done, "")
}

func (r *runner) stopIdle(j job) plan.Finished {
	proc, result := r.process(j)
	if proc == nil {
		return result
	}
	done, err := worker.StopIdle(j.ctx, proc, r.s.set.Policy.StopGrace, claimsOf{r.s.fleet, j.slot.Acceptor})
	switch {
	case done.Outcome == worker.OutcomeBusy:
		return plan.Finished{OK: true, Session: done.Session}
	case err != nil:
		return failed(err)
	}
	return r.stopped(j, done.Stopped, done.Session)
}

// process returns the worker's process, or the result for one that is gone.
func (r *runner) process(j job) (providers.Process, plan.Finished) {
	sandbox, err := r.open(j)
	if err == nil {
		var proc providers.Process
		if proc, err = sandbox.Process(j.ctx); err == nil {
			return proc, plan.Finished{}
		}
	}
	if providers.Is(err, providers.NotFound) {
		return nil, plan.Finished{OK: true, Exit: &providers.Exit{At: time.Now()}}
	}
	return nil, failed(err)
}

func (r *runner) stopped(j job, done worker.Stopped, session string) plan.Finished {
	r.letFinish(j.ctx)
	r.s.logs.note(r.num, fmt.Sprintf("worker stopped: it %s", done.Ending))
	exit := done.Exit
	return plan.Finished{OK: true, Exit: &exit, Session: session}
}

// claimsOf reads the claims of one slot through the pool's one poll.
type claimsOf struct {
	fleet    *fleet
	acceptor string
}

func (c claimsOf) ReadClaims(ctx context.Context) (worker.Claims, error) {
	queue, err := c.fleet.fresh(ctx, time.Now())
	if err != nil {
		return worker.Claims{}, err
	}
	if queue.Unreadable > 0 {
		return worker.Claims{}, fmt.Errorf("the answer of Devin Cloud has %d rows that cannot be read", queue.Unreadable)
	}
	claims := worker.Claims{AsOf: queue.At}
	for _, e := range queue.Claimed(c.acceptor) {
		if !e.Terminated() {
			claims.Session = e.SessionID
		}
	}
	return claims, nil
}

// release gives back what Devin Cloud still lists under a dead worker's id.
func (r *runner) release(j job) plan.Finished {
	queue, err := r.s.fleet.fresh(j.ctx, time.Now())
	if err != nil {
		return failed(err)
	}
	for _, e := range queue.Claimed(j.slot.Acceptor) {
		if err := r.s.set.Fleet.Release(j.ctx, e.SessionID, j.slot.Acceptor); err != nil && !outpost.IsNotFound(err) {
			return failed(err)
		}
		r.s.tell(func(s *Supervisor) {
			s.noteOf(r.num, "session", "released "+e.SessionID+": "+j.action.Why)
		})
	}
	return plan.Finished{OK: true}
}

func (r *runner) remove(j job) plan.Finished {
	sandbox, err := r.open(j)
	if providers.Is(err, providers.NotFound) {
		return plan.Finished{OK: true}
	}
	if err != nil {
		return failed(err)
	}
	r.letFinish(j.ctx)
	if j.slot.Goal.Kind == plan.Replace {
		r.s.epitaph(j.slot, sandbox)
	}
	if err := sandbox.Remove(j.ctx, true); err != nil {
		return failed(err)
	}
	r.sandbox = nil
	r.unwatch()
	return plan.Finished{OK: true}
}

// keptLines is how much of a failed sandbox's log goes into its event.
const keptLines = 200

// epitaph writes down what is known of a sandbox that failed, before it is
// removed.
func (s *Supervisor) epitaph(sl plan.Slot, sandbox providers.Sandbox) {
	fields := map[string]string{"sandbox": sl.Sandbox, "generation": strconv.Itoa(sl.Generation)}
	if sl.LastExit != nil {
		fields["exit"] = sl.LastExit.Reason
	}
	ctx, cancel := context.WithTimeout(s.ctx, lastWords)
	defer cancel()
	if info, err := sandbox.Info(ctx); err == nil {
		fields["state"] = string(info.State)
	}
	// A log that cannot be read is missing from the event, no more.
	lines, _, _ := logs.ReadTail(s.logs.dir, s.name(sl.Num), keptLines)
	var tail strings.Builder
	for _, l := range lines {
		tail.WriteString(l.Text + "\n")
	}
	fields["log"] = tail.String()
	s.tell(func(s *Supervisor) {
		s.noteWith(sl.Num, "failed-sandbox", "removes "+sl.Sandbox+": "+sl.Goal.Why, fields)
	})
}

// secretsOf is a redactor for what a slot's worker could print.
func secretsOf(values []string) *logs.Redactor {
	// What is too short to hide is refused where it is configured.
	redactor, _ := logs.NewRedactor(values)
	return redactor
}
