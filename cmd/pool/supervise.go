package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/configs"
	"github.com/outpostpool/pool/pool"
	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/providers/local"
	"github.com/outpostpool/pool/worker/logs"
)

// supervisorRun is a supervisor ready to run, with what it holds.
type supervisorRun struct {
	super    *pool.Supervisor
	listener net.Listener
	lock     *pool.Lock
	log      *logs.Sink
	logger   *slog.Logger
	lastSeen int64 // id of the newest event of an earlier run
	notes    []string
	away     string // why Devin Cloud did not answer before the start
}

// prepareUp checks everything, takes the lock and the socket and opens the
// records. On an error nothing is left behind.
func prepareUp(c *cli.Context, s *setup) (*supervisorRun, error) {
	if err := makeStateDir(s.choice.StateDir); err != nil {
		return nil, err
	}
	if err := local.Undump(); err != nil {
		return nil, fmt.Errorf("hide the supervisor's memory from its user's other processes: %w", err)
	}
	run := &supervisorRun{}
	if err := run.prepare(c, s); err != nil {
		run.close()
		return nil, err
	}
	return run, nil
}

func (r *supervisorRun) prepare(c *cli.Context, s *setup) (err error) {
	if r.lock, err = pool.TakeLock(s.choice.StateDir); err != nil {
		return err
	}
	if err := s.openProvider(c.Context); err != nil {
		return err
	}
	checked, err := check(c.Context, s, c.Int("workers"))
	if err != nil {
		return err
	}
	r.notes = append(append([]string{}, s.resolved.Notes...), checked.notes()...)
	// Before anything is recorded: what lies at the socket's path may refuse us.
	if r.listener, err = control.Listen(filepath.Join(s.choice.StateDir, control.SocketName)); err != nil {
		return err
	}
	if err := chooseUID(c, s); err != nil {
		return err
	}
	if r.logger, r.log, err = openLog(c.Context, s); err != nil {
		return err
	}
	settings := s.settings(checked.outpost, r.notes, r.logger)
	settings.FleetAway, r.away = checked.away, checked.away
	if c.IsSet("workers") {
		n := c.Int("workers")
		settings.ScaleTo = &n
	}
	if r.super, err = pool.Open(settings); err != nil {
		return err
	}
	r.lastSeen, err = r.super.LastEvent()
	return err
}

// check is up's preflight: whatever would keep every worker from starting is
// said in words before anything is started.
func check(ctx context.Context, s *setup, workers int) (preflight, error) {
	var p preflight
	if p.checkToken(ctx, s) {
		p.checkAPI(ctx, s, apiPatience)
	}
	p.checkCLI(ctx, s)
	p.checkProvider(ctx, s, false)
	p.checkSize(max(workers, s.config.Pool.Workers))
	return p, p.refused()
}

// makeStateDir makes the state folder, private, and finds out whether it can
// be written.
func makeStateDir(dir string) error {
	for _, each := range []string{dir, pool.LogDir(dir)} {
		if err := os.MkdirAll(each, 0o700); err != nil {
			return failWith(exitFailure, "the state folder cannot be made: %w; name another in [pool] state_dir", err)
		}
	}
	if err := makePrivate(dir); err != nil {
		return failWith(exitFailure, "the state folder cannot be made private: %w; name another in [pool] state_dir", err)
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err == nil {
		_, err = probe.WriteString("room for a record")
		err = errors.Join(err, probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return failWith(exitFailure, "the state folder %s cannot be written: %w; make room or name another in [pool] state_dir", dir, err)
	}
	return nil
}

// makePrivate changes a folder only where others have rights in it.
func makePrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() == 0o700 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// chooseUID makes the pool's uid the first time. Sandboxes of a pool of this
// name that are there already belong to somebody: a person decides.
func chooseUID(c *cli.Context, s *setup) error {
	have, err := pool.ReadUID(s.choice.StateDir)
	if err != nil {
		return err
	}
	adopt := c.String("adopt")
	switch {
	case have != "" && adopt != "" && adopt != have:
		return failWith(exitUsage, "this pool has the uid %s already; --adopt is for a host without one", have)
	case have != "":
		return nil
	case adopt != "":
		return pool.WriteUID(s.choice.StateDir, adopt)
	}
	found, err := s.local.List(c.Context, s.config.Pool.Name)
	if err != nil {
		return err
	}
	owners := map[string]bool{}
	var names []string
	for _, info := range found {
		owners[info.Labels.UID] = true
		names = append(names, info.Name)
	}
	if len(owners) > 0 && !c.Bool("new") {
		var uids []string
		for uid := range owners {
			uids = append(uids, uid)
		}
		return failWith(exitFailure, "there are sandboxes of a pool %s whose records are not here: %s; take them over with --adopt %s once you know that their old host is dead, or start beside them with --new",
			s.config.Pool.Name, strings.Join(names, ", "), strings.Join(uids, " or --adopt "))
	}
	return pool.WriteUID(s.choice.StateDir, pool.NewUID())
}

// openLog opens the supervisor's own log.
func openLog(ctx context.Context, s *setup) (*slog.Logger, *logs.Sink, error) {
	token, err := s.resolved.Token.Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	// Too short to be hidden is too short to be a token; nothing prints it on
	// purpose anyway.
	redactor, _ := logs.NewRedactor([]string{token})
	sink, err := logs.NewSink(logs.Settings{
		Dir: pool.LogDir(s.choice.StateDir), Name: "supervisor",
		MaxSize: int64(s.config.Logs.MaxSize), MaxFiles: s.config.Logs.MaxFiles, LineLimit: int(s.config.Logs.LineLimit),
	}, redactor)
	if err != nil {
		return nil, nil, err
	}
	return slog.New(logHandler(sink, s.config.Logs)), sink, nil
}

func logHandler(w io.Writer, c configs.Logs) slog.Handler {
	var level slog.Level
	// The configuration allows slog's own words only.
	_ = level.UnmarshalText([]byte(c.Level))
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: logs.WithoutTime} // the log stamps its lines
	if c.Format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

func (r *supervisorRun) close() {
	if r.listener != nil {
		r.listener.Close()
	}
	if r.log != nil {
		r.log.Close()
	}
	if r.lock != nil {
		r.lock.Release()
	}
}

// serve runs the supervisor until it is down or left: it answers the socket,
// prints events, and follows signals.
func (r *supervisorRun) serve(c *cli.Context) error {
	defer r.close()
	// A reader or a terminal that goes away must not end the pool. The signals
	// are caught and dropped: ignored ones would be ignored by workers too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP)
	printNotes(c, r.notes)
	if r.away != "" {
		printNotes(c, []string{r.away})
	}
	// From here on Ctrl-C means down, which followSignals sees to.
	ctx, stop := context.WithCancel(context.WithoutCancel(c.Context))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer endServing()
	beside.Go(func() {
		if err := control.Serve(serving, r.listener, r.super, control.Options{Log: r.logger, Version: version}); err != nil {
			r.logger.Error("the control socket failed; the pool goes on", "error", err)
		}
	})
	if !inBackground() { // there nobody reads them, and the records have them
		beside.Go(func() { r.printEvents(ctx, c.App.Writer) })
	}
	beside.Go(func() { r.followSignals(ctx, c) })
	err := r.super.Run(ctx)
	stop()
	endServing()
	return err
}

func (r *supervisorRun) printEvents(ctx context.Context, w io.Writer) {
	// It ends with the supervisor; a terminal that is gone hears nothing.
	_ = r.super.Events(ctx, control.EventQuery{After: r.lastSeen, Follow: true}, func(e control.Event) error {
		_ = printStyled(w, renderEvent(e, time.Local)+"\n")
		return nil
	})
}

// followSignals: the first TERM or INT takes the pool down, the second leaves
// at once; USR1 leaves, for upgrades and service managers.
func (r *supervisorRun) followSignals(ctx context.Context, c *cli.Context) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	defer signal.Stop(signals)
	asked := false
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-signals:
			leave := asked || got == syscall.SIGUSR1
			done, err := r.super.Down(ctx, control.DownRequest{Leave: leave})
			if err != nil {
				return // it is ending already
			}
			if !leave {
				done.Detail += "; once more leaves at once, with the workers running"
			}
			fmt.Fprintln(c.App.ErrWriter, "pool: "+done.Detail)
			asked = true
		}
	}
}
