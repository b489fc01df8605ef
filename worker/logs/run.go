package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/outpostpool/pool/providers"
)

// checkBehind is how often a reader that never catches up asks how far behind
// it is.
const checkBehind = 5 * time.Second

var errBehind = errors.New("the log is too far behind")

// gap is output that will not be in the log: what a backlog is cut down by, or
// what was discarded before our records were lost.
type gap struct {
	open  bool  // reading began behind from; the rest of a line comes first
	from  int64 // offset of its first byte
	zeros bool  // nothing but discarded bytes read so far
}

// Run follows the output of one process, from the recorded offset on when it
// is the recorded process, until the process has ended and everything is
// written and committed (nil), or ctx ends. It retries everything but
// NotFound, and one that begins while another runs waits for that to end.
func (f *Follower) Run(ctx context.Context, p providers.Process) error {
	err := f.run(ctx, p)
	f.notesAlone()
	return err
}

func (f *Follower) run(ctx context.Context, p providers.Process) error {
	f.running.Lock()
	defer f.running.Unlock()
	try := f.stubborn(ctx)
	for delay := time.Second; ; delay = min(2*delay, 30*time.Second) {
		before := f.at.Offset
		err := f.follow(ctx, try, p)
		f.out = f.out[:0]
		switch {
		case err == nil:
			return try(f.commit)
		case ctx.Err() != nil:
			f.report(f.commit())
			return err
		case providers.Is(err, providers.NotFound):
			return errors.Join(err, f.commit())
		case errors.Is(err, errBehind):
			delay = time.Second / 2 // doubled to what it is at first
			continue
		}
		f.report(fmt.Errorf("follow output: %w", err))
		if f.at.Offset > before {
			delay = time.Second
		}
		if !sleep(ctx, delay) {
			return ctx.Err()
		}
	}
}

// follow reads from the last written line on, until the output ends.
func (f *Follower) follow(ctx context.Context, try persist, p providers.Process) error {
	if err := try(f.prepare); err != nil {
		return err
	}
	if err := f.aim(ctx, p); err != nil {
		return err
	}
	// Nothing is written before a record says to what length the log is to be
	// cut after a crash.
	if err := try(f.commit); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	source, err := p.Output(ctx, f.read)
	if err != nil {
		cancel()
		return err
	}
	in := startPump(source)
	defer func() {
		cancel()
		source.Close() // only read from
		in.stop()
	}()
	return f.loop(ctx, try, p, in)
}

// aim decides where reading begins.
func (f *Follower) aim(ctx context.Context, p providers.Process) error {
	info, err := p.Info(ctx)
	if err != nil {
		return err
	}
	f.gap = gap{}
	if info.LaunchID != f.at.LaunchID {
		f.at.LaunchID, f.at.Offset = info.LaunchID, 0
		f.gap.zeros = true
	}
	f.lines.reset()
	f.lines.redactor = f.redactor.Load()
	f.read, f.outEnd = f.at.Offset, f.at.Offset
	behind, err := f.behind(ctx, p)
	if err != nil {
		return err
	}
	if behind > maxBacklog {
		f.gap.open, f.gap.from = true, f.read
		f.read += behind - maxBacklog
	}
	return nil
}

// behind is how many bytes of output wait to be read; 0 when nobody can tell.
func (f *Follower) behind(ctx context.Context, p providers.Process) (int64, error) {
	backlog, ok := providers.As[providers.Backlog](p)
	if !ok {
		return 0, nil
	}
	size, err := backlog.OutputSize(ctx)
	if providers.Is(err, providers.Invalid) {
		return 0, nil
	}
	return size - f.read, err
}

func (f *Follower) loop(ctx context.Context, try persist, p providers.Process, in *pump) error {
	idle, due := stoppedTimer(), stoppedTimer()
	defer idle.Stop()
	defer due.Stop()
	busySince := time.Now()
	for {
		if err := f.writeNotes(try); err != nil {
			return err
		}
		if f.at.Offset-f.saved.Offset >= commitBytes && f.at.LaunchID == f.saved.LaunchID {
			f.commitAndDiscard(ctx, p)
		}
		if f.at != f.saved && !due.armed {
			due.arm(commitEvery)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.noted:
		case <-due.C:
			due.armed = false
			f.commitAndDiscard(ctx, p)
		case <-idle.C:
			idle.armed = false
			busySince = time.Now()
			if err := f.flush(try, false); err != nil {
				return err
			}
		case chunk, more := <-in.chunks:
			if !more {
				return f.ended(ctx, try, p, in.err)
			}
			if err := f.take(try, chunk); err != nil {
				return err
			}
			in.done(chunk)
			idle.arm(promptIdle)
			if time.Since(busySince) > checkBehind {
				busySince = time.Now()
				if behind, err := f.behind(ctx, p); err == nil && behind > maxBacklog+int64(len(f.lines.pending)) {
					return errBehind
				}
			}
		}
	}
}

// take writes the lines that chunk completes.
func (f *Follower) take(try persist, chunk []byte) error {
	f.setTime(time.Now())
	f.lines.redactor = f.redactor.Load()
	if f.gap.zeros {
		given := bytes.TrimLeft(chunk, "\x00")
		f.read += int64(len(chunk) - len(given))
		if chunk = given; len(chunk) == 0 {
			return nil
		}
		f.gap.zeros = false
		if f.read > 0 && !f.gap.open {
			if err := f.skipped(try, f.read, "they were read before, by a pool whose records are lost"); err != nil {
				return err
			}
		}
	}
	err := f.lines.feed(chunk, func(text []byte, raw int) error { return f.line(try, text, raw) })
	if err != nil {
		return err
	}
	return try(f.write)
}

func (f *Follower) line(try persist, text []byte, raw int) error {
	f.read += int64(raw)
	if f.gap.open {
		// What is left of a line whose beginning was skipped may be what is
		// left of a secret.
		f.gap.open = false
		return f.skipped(try, f.read-f.gap.from, "more than 64 MB were waiting")
	}
	return f.add(try, "", text, f.read)
}

func (f *Follower) skipped(try persist, bytes int64, why string) error {
	return f.add(try, poolMark, fmt.Appendf(nil, "skipped %d bytes of output: %s", bytes, why), f.read)
}

func (f *Follower) flush(try persist, end bool) error {
	f.setTime(time.Now())
	f.lines.redactor = f.redactor.Load()
	err := f.lines.flush(end, func(text []byte, raw int) error { return f.line(try, text, raw) })
	if err != nil {
		return err
	}
	return try(f.write)
}

func (f *Follower) ended(ctx context.Context, try persist, p providers.Process, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if err := f.flush(try, true); err != nil {
		return err
	}
	if err := f.writeNotes(try); err != nil {
		return err
	}
	if err := try(f.commit); err != nil {
		return err
	}
	f.discard(ctx, p)
	return nil
}

// commitAndDiscard leaves a failed commit to the next one: the lines go on
// being written until the file is full.
func (f *Follower) commitAndDiscard(ctx context.Context, p providers.Process) {
	if err := f.commit(); err != nil {
		f.report(err)
		return
	}
	f.discard(ctx, p)
}

func (f *Follower) discard(ctx context.Context, p providers.Process) {
	discarder, ok := providers.As[providers.Discarder](p)
	if !ok || f.saved.Offset == 0 || ctx.Err() != nil {
		return
	}
	err := discarder.Discard(ctx, f.saved.Offset)
	if err != nil && !f.keepsAll && f.options.OnError != nil {
		f.options.OnError(fmt.Errorf("give back the space of output that was read: %w", err))
	}
	f.keepsAll = err != nil
}
