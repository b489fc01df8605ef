package launch

import (
	"context"
	"io"
	"strconv"

	"github.com/outpostpool/pool/providers"
)

const (
	// block is what the log is read in, in bytes. Skipping whole blocks is a
	// seek for every dd, while BusyBox's tail would read all that lies before.
	block = 64 << 10
	// blocks is how many one look brings at most.
	blocks = 16
	// replaced is the exit code when the log is that of a later launch.
	replaced = 11
)

// readScript prints worker.log from an offset. The launch id is compared after
// reading: a new launch empties the log first and names itself next, and
// nothing is written before both are done.
const readScript = `cd "$1" && [ -e worker.log ] || exit 1
dd if=worker.log bs="$3" skip="$4" count="$5" 2>/dev/null | tail -c "+$6" || exit 1
[ "$(sed -n 's/^launch=//p' worker.pid)" = "$2" ] || exit 11
`

// reader follows a worker's output, one short command per look.
type reader struct {
	p      *process
	ctx    context.Context
	cancel context.CancelFunc
	offset int64 // of the next byte to fetch
	buf    []byte
}

func (r *reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for ended := false; len(r.buf) == 0; {
		if err := r.fetch(); err != nil {
			return 0, err
		}
		if len(r.buf) > 0 {
			break
		}
		if ended { // and it had before this last, empty look
			return 0, io.EOF
		}
		var err error
		if _, ended, err = r.p.ended(r.ctx); err != nil {
			return 0, err
		}
		if ended {
			continue
		}
		if err := r.p.d.opts.Sleep(r.ctx, r.p.d.opts.Poll); err != nil {
			return 0, classed(r.p.op("read output of"), err)
		}
	}
	n := copy(b, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// fetch brings what is there from the offset on, at most a megabyte.
func (r *reader) fetch() error {
	op := r.p.op("read output of")
	out, exit, err := r.p.d.sh(r.ctx, nil, readScript, r.p.d.host.RunDir(), r.p.rec.LaunchID,
		strconv.Itoa(block), strconv.FormatInt(r.offset/block, 10), strconv.Itoa(blocks),
		strconv.FormatInt(r.offset%block+1, 10))
	switch {
	case err != nil:
		return classed(op, err)
	case exit.Code == replaced:
		return providers.Errorf(providers.NotFound, op, "a later launch has replaced it")
	case exit.Code != 0:
		return providers.Errorf(providers.Transient, op, "a helper in the sandbox failed with code %d: %s", exit.Code, exit.complaint)
	}
	r.buf = out
	r.offset += int64(len(out))
	return nil
}

// Close ends a Read that waits.
func (r *reader) Close() error {
	r.cancel()
	return nil
}
