package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/configs"
	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/worker/outpost/outposttest"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "run a real pool against an outpost of its own: no account, nothing left behind",
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "workers", Aliases: []string{"n"}, Value: 4, Usage: "how many workers"},
			&cli.DurationFlag{Name: "for", DefaultText: "until Ctrl-C", Usage: "end by itself after so long"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the sessions and the chaos"},
			&cli.BoolFlag{Name: "chaos", Usage: "kill a worker now and then"},
		},
		Action: demo,
	}
}

// demoToken is what the demo's own outpost accepts.
const demoToken = "cog_demo_token_of_the_embedded_outpost"

// demoRun is a demo under way: an outpost, a pool, and a folder for both.
type demoRun struct {
	c      *cli.Context
	dir    string
	self   string
	client *control.Client
	remote outposttest.Remote
	kills  int
}

func demo(c *cli.Context) error {
	if c.NArg() > 0 || c.Int("workers") < 1 || c.Duration("for") < 0 {
		return usageError(c, "demo takes no argument, at least one worker and a positive duration")
	}
	dir, err := os.MkdirTemp("", "pool-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	d := &demoRun{c: c, dir: dir, self: self, client: control.Dial(filepath.Join(dir, "state", control.SocketName))}
	defer d.client.Close()
	return d.run(ctx)
}

func (d *demoRun) run(ctx context.Context) error {
	outpost, err := d.startOutpost()
	if err != nil {
		return err
	}
	defer end(outpost)
	if err := d.writeConfig(); err != nil {
		return err
	}
	up, ended, err := d.startPool()
	if err != nil {
		return err
	}
	fmt.Fprintf(d.c.App.Writer, "demo: %d workers serve an outpost at %s; look on from another terminal:\n  pool --config %s status\n", d.c.Int("workers"), d.remote.URL, d.config())
	if limit := d.c.Duration("for"); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	var chaos sync.WaitGroup
	if d.c.Bool("chaos") {
		chaos.Go(func() { d.chaos(ctx) })
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the pool ended by itself: %w", err)
	case <-ctx.Done():
	}
	chaos.Wait()
	// The demo's own context is over; the end has one of its own.
	return d.finish(context.WithoutCancel(ctx), up, ended)
}

// startOutpost starts the outpost's double, which feeds a little more than the
// workers can serve, so that each of them gets its share.
func (d *demoRun) startOutpost() (*exec.Cmd, error) {
	every := 3 * time.Second / time.Duration(d.c.Int("workers"))
	cmd := exec.Command(d.self, "__outpost", "--outpost", "demo:", "--token-env", configs.DefaultTokenEnv,
		"--sessions", "1000000", "--every", every.String(), "--session-for", "2s..5s", "--seed", fmt.Sprint(d.c.Uint64("seed")))
	cmd.Env = append(os.Environ(), configs.DefaultTokenEnv+"="+demoToken)
	cmd.Stderr = d.c.App.ErrWriter
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the demo's outpost: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end(cmd)
		return nil, fmt.Errorf("the demo's outpost told no address: %w", err)
	}
	d.remote = outposttest.Remote{URL: strings.TrimSpace(line)}
	return cmd, nil
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}

func (d *demoRun) config() string { return filepath.Join(d.dir, configs.ConfigFile) }

// writeConfig writes what differs from the real thing.
func (d *demoRun) writeConfig() error {
	return os.WriteFile(d.config(), fmt.Appendf(nil, `# The demo differs from the real thing only here.
[pool]
name = "demo"
state_dir = %q

[outpost]
name = "demo"
api_url = %q
poll_interval = "1s"

[worker]
command = [%q, "__worker", "start", "--outpost={outpost}"]
args = ["--poll-interval-secs=1"]
start_window = "1s"
`, filepath.Join(d.dir, "state"), d.remote.URL, d.self), 0o600)
}

// startPool runs the real `pool up` as a user would, and waits until it
// answers.
func (d *demoRun) startPool() (*exec.Cmd, chan error, error) {
	cmd := exec.Command(d.self, "--config", d.config(), "up", "--workers", fmt.Sprint(d.c.Int("workers")))
	cmd.Env = append(os.Environ(), configs.DefaultTokenEnv+"="+demoToken)
	cmd.Stdout, cmd.Stderr = d.c.App.Writer, d.c.App.ErrWriter
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is the demo's
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the pool: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		if _, err := d.client.Version(d.c.Context); err == nil {
			return cmd, ended, nil
		}
		select {
		case err := <-ended:
			return nil, nil, fmt.Errorf("the pool did not start: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// chaos kills a living worker every few seconds, as the kernel might.
func (d *demoRun) chaos(ctx context.Context) {
	dice := rand.New(rand.NewPCG(d.c.Uint64("seed"), 0))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(3+dice.IntN(5)) * time.Second):
		}
		p, err := d.client.Pool(ctx)
		if err != nil {
			continue
		}
		var alive []control.Worker
		for _, w := range p.Workers {
			if w.PID > 0 {
				alive = append(alive, w)
			}
		}
		if len(alive) == 0 {
			continue
		}
		victim := alive[dice.IntN(len(alive))]
		if syscall.Kill(victim.PID, syscall.SIGKILL) == nil {
			d.kills++
			fmt.Fprintf(d.c.App.Writer, "demo: chaos kills %s (pid %d)\n", victim.Name, victim.PID)
		}
	}
}

// finish takes the pool down and sums up what was seen.
func (d *demoRun) finish(ctx context.Context, up *exec.Cmd, ended chan error) error {
	last, err := d.client.Pool(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(d.c.App.Writer, "demo: takes the pool down; sessions that run are cut off, which the real `pool down` does only with --now")
	if _, err := d.client.Down(ctx, control.DownRequest{Now: true}); err != nil {
		return err
	}
	select {
	case err = <-ended:
	case <-time.After(2 * time.Minute):
		err = errors.Join(errors.New("the pool did not end"), up.Process.Kill())
	}
	state, stateErr := d.remote.State(ctx)
	if err := errors.Join(err, stateErr); err != nil {
		return err
	}
	return d.summary(last, state)
}

func (d *demoRun) summary(p control.Pool, state outposttest.State) error {
	rows := [][]string{{"WORKER", "SESSIONS", "RESTARTS", "LAST EXIT"}}
	restarts := 0
	for _, w := range p.Workers {
		restarts += w.RestartsTotal
		exit := "none"
		if w.LastExit != nil {
			exit = clean(w.LastExit.Reason)
		}
		rows = append(rows, []string{w.Name, fmt.Sprint(w.Served), fmt.Sprint(w.RestartsTotal), exit})
	}
	fmt.Fprintf(d.c.App.Writer, "\ndemo: %d sessions served to their end, %d restarts after %d kills\n", state.Served, restarts, d.kills)
	if err := printStyled(d.c.App.Writer, table(rows, 0)); err != nil {
		return err
	}
	if len(state.Violations) > 0 {
		return failWith(exitFailure, "the outpost saw %d broken promises, the first: %+v", len(state.Violations), state.Violations[0])
	}
	return nil
}
